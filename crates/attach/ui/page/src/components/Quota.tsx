import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, type Namespace, type Quota } from "../api";
import { refresh, state } from "../live";
import { attempt } from "../notices";
import { limitAt, placeOf, STEPS, type Range } from "../slider";
import { count, parseCount, parseRate, rate } from "../units";
import { Term } from "./Term";
import { Why } from "./Why";

type Field = keyof Quota;

interface Control {
  field: Field;
  label: string;
  range: Range;
  /** What the drive takes, 0 apart. */
  least: number;
  most: number;
  say: (value: number) => string;
  parse: (text: string) => number | null;
  /** What 0 means. */
  none: string;
}

const BANDWIDTH = { range: { least: 1e6, most: 1e10 }, least: 4096, most: 1e12, say: rate, parse: parseRate, none: "no limit" };
const IOPS = { range: { least: 10, most: 1e7 }, least: 1, most: 1e9, say: (value: number) => `${count(value)} IOPS`, parse: parseCount, none: "no limit" };

const LIMITS: readonly Control[] = [
  { field: "read_bandwidth", label: "Read bandwidth", ...BANDWIDTH },
  { field: "write_bandwidth", label: "Write bandwidth", ...BANDWIDTH },
  { field: "read_iops", label: "Read IOPS", ...IOPS },
  { field: "write_iops", label: "Write IOPS", ...IOPS },
];

/** A slider has to rest this long before its limit is sent. */
const REST_MS = 300;

/** The limits in force, in few words. */
function summary(quota: Quota): string {
  const limits = LIMITS.filter(({ field }) => quota[field] > 0).map(({ field, label, say }) => `${label.toLowerCase().replace(" iops", "")} ${say(quota[field])}`);
  return limits.length > 0 ? limits.join(", ") : "no limits";
}

/** Limits of one namespace. A change holds at once. */
export function QuotaControls({ namespace }: { namespace: Namespace }) {
  const allowed = state.value?.allows.quotas ?? true;
  const [save, setSave] = useState(false);
  const set = async (change: Partial<Quota>, what: string) => {
    const went = await attempt(() => api.quota(namespace.nsid, { ...change, save }), {
      done: `Namespace ${namespace.nsid}: ${what}.`,
      failed: `The quota of namespace ${namespace.nsid} was not changed`,
    });
    await refresh();
    return went;
  };
  return (
    <details class="quota">
      <summary>
        <span class="name">Quota</span> <span class="muted num">{summary(namespace.quota)}</span>
      </summary>
      <fieldset class="plain" disabled={allowed !== true} aria-label={`Quota of namespace ${namespace.nsid}`}>
        {allowed !== state.value?.allows.namespaces && <Why allowed={allowed} what="Quotas cannot be set here" why="the drive has no quotas." />}
        {LIMITS.map((control) => (
          <Limit key={control.field} control={control} value={namespace.quota[control.field]} set={set} />
        ))}
        <div class="row">
          <Number_ label={<Term id="burst">Burst, µs</Term>} value={namespace.quota.burst_us} most={1e7} none="1000" set={(value) => set({ burst_us: value }, value === 0 ? "the burst is the default" : `the burst is ${value} µs`)} />
          <Number_ label={<Term id="weight" />} value={namespace.quota.weight} most={1000} none="100" set={(value) => set({ weight: value }, value === 0 ? "the weight is the default" : `the weight is ${value}`)} />
          <label class="check">
            <input type="checkbox" checked={save} onChange={(event) => setSave(event.currentTarget.checked)} />
            <span>Keep changes after power off</span>
          </label>
        </div>
      </fieldset>
    </details>
  );
}

function Limit({ control, value, set }: { control: Control; value: number; set: (change: Partial<Quota>, what: string) => Promise<boolean> }) {
  // Chosen, and not confirmed by the drive.
  const [draft, setDraft] = useState<number | null>(null);
  const [text, setText] = useState<string | null>(null);
  const [wrong, setWrong] = useState("");
  const timer = useRef(0);
  const id = useId();
  useEffect(() => () => clearTimeout(timer.current), []);

  const now = draft ?? value;
  const say = (limit: number) => (limit === 0 ? control.none : control.say(limit));
  const send = async (limit: number) => {
    const what = control.label.replace(/^[RW]/, (letter) => letter.toLowerCase());
    await set({ [control.field]: limit }, limit === 0 ? `${what} has no limit` : `${what} is limited to ${say(limit)}`);
    setDraft(null);
  };
  const slide = (place: number) => {
    const limit = limitAt(place, control.range);
    setDraft(limit);
    setText(null);
    setWrong("");
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => void send(limit), REST_MS);
  };
  const typed = () => {
    if (text === null) return;
    const words = text.trim().toLowerCase();
    const limit = words === "" || words === control.none ? 0 : control.parse(text);
    if (limit === null || (limit !== 0 && (limit < control.least || limit > control.most))) {
      setWrong(`Enter ${control.say(control.least)} to ${control.say(control.most)}, or 0 for no limit.`);
      return;
    }
    setWrong("");
    setText(null);
    if (limit === value) return;
    setDraft(limit);
    void send(limit);
  };

  return (
    <div class="limit">
      <label for={id}>{control.label}</label>
      <input
        id={id}
        type="range"
        min={0}
        max={STEPS}
        value={placeOf(now, control.range)}
        aria-valuetext={say(now)}
        class={now === 0 ? "unlimited" : ""}
        onInput={(event) => slide(Number(event.currentTarget.value))}
      />
      <input
        type="text"
        class="num"
        inputMode="text"
        autocomplete="off"
        spellcheck={false}
        aria-label={`${control.label}, exactly; 0 is no limit`}
        aria-invalid={wrong !== ""}
        aria-describedby={wrong !== "" ? `${id}-wrong` : undefined}
        value={text ?? say(now)}
        onFocus={(event) => event.currentTarget.select()}
        onInput={(event) => setText(event.currentTarget.value)}
        onBlur={typed}
        onKeyDown={(event) => {
          if (event.key === "Enter") typed();
          if (event.key === "Escape") {
            setText(null);
            setWrong("");
          }
        }}
      />
      {wrong !== "" && (
        <p id={`${id}-wrong`} class="inline-error" role="alert">
          {wrong}
        </p>
      )}
    </div>
  );
}

function Number_(props: { label: preact.ComponentChildren; value: number; most: number; none: string; set: (value: number) => Promise<boolean> }) {
  const id = useId();
  return (
    <span class="number">
      <label for={id}>{props.label}</label>
      <input
        id={id}
        type="number"
        min={0}
        max={props.most}
        step={1}
        value={props.value === 0 ? "" : props.value}
        placeholder={props.none}
        onChange={(event) => {
          const value = event.currentTarget.value === "" ? 0 : Number(event.currentTarget.value);
          if (event.currentTarget.reportValidity() && value !== props.value) void props.set(value);
        }}
      />
    </span>
  );
}
