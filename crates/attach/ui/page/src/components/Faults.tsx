import { useState } from "preact/hooks";
import { api, type FaultKind, type FaultOrder } from "../api";
import { confirm } from "../confirm";
import { describe, nameOf, WORDS } from "../faults";
import { history, refresh, state, tick } from "../live";
import { attempt } from "../notices";
import { MEDIA } from "./Sets";
import { Explain, Term } from "./Term";
import { Why } from "./Why";

const NETWORK = "the live view counts as a host on the network, and the drive's TOML does not have allow_network_faults = true.";
/** The drive accepts no smaller chance. */
const MOST_ONE_IN = 1e9;

/** Power cuts, and failures on purpose. */
export function Faults() {
  if (!state.value) return null;
  const { power_cut: cuts, faults } = state.value.allows;
  return (
    <section id="faults" aria-labelledby="faults-title">
      <div class="section-head">
        <h2 id="faults-title">Faults and power</h2>
      </div>
      <Explain ids={["fault", "powerCut"]} />
      {cuts === faults && <Why allowed={cuts} what="The power cannot be cut here, and faults cannot be injected" why={NETWORK} />}
      {!state.value.run && (
        <div class="cards">
          <PowerCut />
          <Inject />
          <Active />
        </div>
      )}
    </section>
  );
}

/** The faults that are active, whoever injected them. */
function Active() {
  void tick.value;
  const faults = history.newest?.faults ?? [];
  return (
    <div class="card" role="status" aria-label="Active faults">
      <h3>Active faults</h3>
      {faults.length === 0 && <p class="muted">None. Faults appear here while they are active.</p>}
      {faults.length > 0 && (
        <ul class="plain">
          {faults.map((fault) => (
            <li key={`${fault.kind} ${fault.id} ${fault.parameter} ${fault.remaining > 0}`}>{describe(fault)}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function PowerCut() {
  const allowed = state.value?.allows.power_cut ?? false;
  const [off, setOff] = useState(1000);
  const [noPlp, setNoPlp] = useState(false);
  const [busy, setBusy] = useState(false);
  const cut = async (event: Event) => {
    event.preventDefault();
    const text = `The drive loses power for ${off / 1000} s. Commands in flight fail. ${noPlp ? "The capacitors fail too: completed writes that are not on flash yet are LOST." : "Completed writes survive if the drive has capacitors."}`;
    if (!(await confirm("Cut the power?", text, "Cut the power"))) return;
    setBusy(true);
    await attempt(() => api.powerCut({ off_ms: off, no_plp: noPlp }), { done: `The power is cut for ${off / 1000} s.`, failed: "The power was not cut" });
    setBusy(false);
    await refresh();
  };
  return (
    <form class="card" aria-label="Power cut" onSubmit={(event) => void cut(event)}>
      <h3>
        <Term id="powerCut" />
      </h3>
      {allowed !== state.value?.allows.faults && <Why allowed={allowed} what="The power cannot be cut here" why={NETWORK} />}
      <fieldset class="plain" disabled={allowed !== true}>
        <label class="field">
          <span>Time without power, 1 to 60,000 ms</span>
          <input type="number" min={1} max={60000} required value={off} onInput={(event) => setOff(Number(event.currentTarget.value))} />
        </label>
        <label class="check">
          <input type="checkbox" checked={noPlp} onChange={(event) => setNoPlp(event.currentTarget.checked)} />
          <span>The capacitors fail too</span>
        </label>
        <button type="submit" class="danger" disabled={busy}>
          {busy ? "No power…" : "Cut the power…"}
        </button>
      </fieldset>
    </form>
  );
}

function Inject() {
  const known = state.value;
  const allowed = known?.allows.faults ?? false;
  const kinds = (known?.fault_kinds ?? []).filter((kind) => kind.kind !== "clear");
  const [name, setName] = useState("");
  const [set, setSet] = useState(0);
  const [when, setWhen] = useState<"always" | "chance" | "count">("chance");
  const [oneIn, setOneIn] = useState(1000);
  const [many, setMany] = useState(1);
  const [parameter, setParameter] = useState<number | null>(null);
  const kind: FaultKind | undefined = kinds.find((other) => other.kind === name) ?? kinds[0];
  if (!known) return null;

  const how = when === "count" && !kind?.counted ? "always" : when;
  // A die that all chosen sets have.
  const lastDie = Math.max(0, Math.min(...known.sets.filter((other) => set === 0 || other.id === set).map((other) => other.dies)) - 1);
  const given = parameter ?? (kind?.parameter === "factor" ? 10 : 0);
  const inject = async (event: Event) => {
    event.preventDefault();
    if (!kind) return;
    const order: FaultOrder = { set, kind: kind.kind };
    if (kind.parameter !== "die" && how === "chance") order.one_in = oneIn;
    if (kind.counted && how === "count") order.count = many;
    if (kind.parameter !== null) order.parameter = given;
    const what = `${nameOf(kind.kind)} in ${set === 0 ? "all sets" : `set ${set}`}`;
    await attempt(() => api.fault(order), { done: `${what}: injected.`, failed: `${what}: not injected` });
    await refresh();
  };
  const clear = async () => {
    await attempt(() => api.fault({ set: 0, kind: "clear" }), { done: "All faults are cleared.", failed: "The faults were not cleared" });
    await refresh();
  };
  return (
    <form class="card" aria-label="Faults" onSubmit={(event) => void inject(event)}>
      <h3>
        <Term id="fault">Faults</Term>
      </h3>
      {allowed !== known.allows.power_cut && <Why allowed={allowed} what="Faults cannot be injected here" why={NETWORK} />}
      <fieldset class="plain" disabled={allowed !== true || !kind}>
        <div class="fields">
          <label class="field">
            <span>Kind</span>
            <select
              value={kind?.kind}
              onChange={(event) => {
                setName(event.currentTarget.value);
                setParameter(null);
              }}
            >
              {kinds.map((other) => (
                <option key={other.kind} value={other.kind}>
                  {nameOf(other.kind)}
                </option>
              ))}
            </select>
          </label>
          <label class="field">
            <span>Where</span>
            <select value={set} onChange={(event) => setSet(Number(event.currentTarget.value))}>
              <option value={0}>All sets</option>
              {known.sets.map((other) => (
                <option key={other.id} value={other.id}>
                  Set {other.id}: {MEDIA[other.medium]}
                </option>
              ))}
            </select>
          </label>
          {kind?.parameter !== "die" && (
            <label class="field">
              <span>How often</span>
              <select value={how} onChange={(event) => setWhen(event.currentTarget.value as typeof when)}>
                <option value="chance">By chance</option>
                <option value="always">Every operation</option>
                {kind?.counted && <option value="count">The next operations</option>}
              </select>
            </label>
          )}
          {kind?.parameter !== "die" && how === "chance" && (
            <label class="field">
              <span>One operation in</span>
              <input type="number" min={1} max={MOST_ONE_IN} required value={oneIn} onInput={(event) => setOneIn(Number(event.currentTarget.value))} />
            </label>
          )}
          {kind?.counted && how === "count" && (
            <label class="field">
              <span>Operations</span>
              <input type="number" min={1} max={4294967295} required value={many} onInput={(event) => setMany(Number(event.currentTarget.value))} />
            </label>
          )}
          {kind?.parameter && (
            <label class="field">
              <span>{kind.parameter === "die" ? `Die, 0 to ${lastDie}` : "Times as long"}</span>
              <input type="number" min={kind.parameter === "die" ? 0 : 2} max={kind.parameter === "die" ? lastDie : 4294967295} required value={given} onInput={(event) => setParameter(Number(event.currentTarget.value))} />
            </label>
          )}
        </div>
        <p class="muted">{kind ? (WORDS[kind.kind]?.[1] ?? "") : ""}</p>
        <div class="row">
          <button type="submit" class="danger">
            Inject
          </button>
          <button type="button" onClick={() => void clear()}>
            Clear all faults
          </button>
        </div>
      </fieldset>
    </form>
  );
}
