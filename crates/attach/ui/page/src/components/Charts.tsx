import { direction, hidden, lineOf, span, toggleHidden, type Direction } from "../prefs";
import { history, state, tick } from "../live";
import { AMPLIFICATION_SECONDS, type Rates, type Value } from "../history";
import { count, digits, rate, time } from "../units";
import { signal } from "@preact/signals";
import { Chart, Stroke, type Line } from "./Chart";
import { Explain } from "./Term";

type Percentile = "p50" | "p99" | "p999";
const percentile = signal<Percentile>("p99");

const SPANS = [
  [60, "1 min"],
  [300, "5 min"],
  [900, "15 min"],
] as const;
/** The spans of a run, whose time passes at another speed: two samples are one second of a span. */
const SAMPLES = [
  [60, "120 samples"],
  [300, "600"],
  [900, "1,800"],
] as const;
const DIRECTIONS: readonly [Direction, string][] = [
  ["both", "Reads + writes"],
  ["read", "Reads"],
  ["write", "Writes"],
];
const PERCENTILES: readonly [Percentile, string][] = [
  ["p50", "p50"],
  ["p99", "p99"],
  ["p999", "p99.9"],
];

/** The position of a namespace among all, which selects its colour. It changes only if a lower one is created or deleted. */
export function placeOf(nsid: number): number {
  const all = new Set([...history.namespaces.keys(), ...(state.value?.namespaces ?? []).map((namespace) => namespace.nsid)]);
  return [...all].sort((a, b) => a - b).indexOf(nsid);
}

/** Throughput, IOPS, latency and write amplification over time. */
export function Charts() {
  // Each sample draws anew.
  void tick.value;
  const all = [...history.namespaces.keys()].sort((a, b) => a - b);
  const shown = all.filter((nsid) => !hidden.value.has(nsid));
  const way = direction.value;

  const lines = (pick: (rates: Rates) => readonly Value[]): Line[] =>
    shown.map((nsid) => ({
      key: String(nsid),
      label: `Namespace ${nsid}`,
      short: `NS ${nsid}`,
      ...lineOf(placeOf(nsid)),
      values: pick(history.namespaces.get(nsid) as Rates),
    }));
  const chosen = (rates: Rates, read: keyof Rates, write: keyof Rates): readonly Value[] =>
    way === "read" ? rates[read] : way === "write" ? rates[write] : sum(rates[read], rates[write]);
  const slowest = (rates: Rates): readonly Value[] => {
    const read = rates[`read_${percentile.value}`];
    const write = rates[`write_${percentile.value}`];
    return way === "read" ? read : way === "write" ? write : larger(read, write);
  };
  const what = way === "both" ? "reads and writes" : way === "read" ? "reads" : "writes";

  return (
    <section id="performance" aria-labelledby="performance-title">
      <div class="section-head">
        <h2 id="performance-title">Performance</h2>
        <div class="controls">
          <Choice label="Commands" options={DIRECTIONS} value={way} onChange={(value) => (direction.value = value)} />
          <Choice label="Latency" options={PERCENTILES} value={percentile.value} onChange={(value) => (percentile.value = value)} />
          <Choice label="Time" options={state.value?.run ? SAMPLES : SPANS} value={span.value as 60 | 300 | 900} onChange={(value) => (span.value = value)} />
        </div>
      </div>
      <Explain ids={["throughput", "iops", "latency", "percentile", "amplification"]} />
      {all.length > 0 && (
        <div class="picker" role="group" aria-label="Namespaces in the charts">
          {all.map((nsid) => (
            <button key={nsid} type="button" class="chip" aria-pressed={!hidden.value.has(nsid)} onClick={() => toggleHidden(nsid)}>
              <Stroke {...lineOf(placeOf(nsid))} /> Namespace {nsid}
            </button>
          ))}
        </div>
      )}
      <div class="charts">
        <Chart title="throughput" note={what} lines={lines((rates) => chosen(rates, "read", "written"))} format={rate} floor={1e6} empty="No commands yet" />
        <Chart title="iops" note={what} lines={lines((rates) => chosen(rates, "reads", "writes"))} format={count} floor={100} empty="No commands yet" />
        <Chart
          title="latency"
          note={`${PERCENTILES.find(([name]) => name === percentile.value)?.[1] ?? ""} of ${way === "both" ? "reads or writes" : what}`}
          lines={lines(slowest)}
          format={time}
          logarithmic
          floor={1e6}
          empty="No commands in this time"
        />
        <Chart
          title="amplification"
          note={`over ${AMPLIFICATION_SECONDS} s`}
          lines={[{ key: "drive", label: "Drive", short: "Drive", colour: "series-1", dash: [], values: history.amplification }]}
          format={digits}
          floor={2}
          reference={1}
          empty="No writes to flash in this time"
        />
      </div>
    </section>
  );
}

function sum(a: readonly Value[], b: readonly Value[]): Value[] {
  return a.map((value, index) => add(value, b[index] ?? null));
}

function add(a: Value, b: Value): Value {
  return a === null ? b : b === null ? a : a + b;
}

function larger(a: readonly Value[], b: readonly Value[]): Value[] {
  return a.map((value, index) => {
    const other = b[index] ?? null;
    return value === null ? other : other === null ? value : Math.max(value, other);
  });
}

/** One of few: radio buttons that look like one control. */
export function Choice<T extends string | number>(props: { label: string; options: readonly (readonly [T, string])[]; value: T; onChange: (value: T) => void }) {
  const name = `choice-${props.label.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <fieldset class="choice">
      <legend>{props.label}</legend>
      {props.options.map(([value, words]) => (
        <label key={value}>
          <input type="radio" name={name} checked={value === props.value} onChange={() => props.onChange(value)} />
          <span>{words}</span>
        </label>
      ))}
    </fieldset>
  );
}
