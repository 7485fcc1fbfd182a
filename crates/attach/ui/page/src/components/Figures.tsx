import { amplificationSincePowerOn, history, link, state, tick } from "../live";
import type { Rates, Value } from "../history";
import { bytes, count, digits, rate, time, whole } from "../units";
import type { TermId } from "../terms";
import { Term } from "./Term";

/** What the drive does now, in few numbers. */
export function Figures() {
  void tick.value;
  const drive = history.newest?.drive;
  const now = (field: keyof Rates): Value[] => [...history.namespaces.values()].map((rates) => rates[field].at(-1) ?? null);
  const total = (field: keyof Rates) => now(field).reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const slowest = [...now("read_p99"), ...now("write_p99")].reduce<Value>((most, value) => (value !== null && (most === null || value > most) ? value : most), null);
  const amplification = history.amplification.at(-1) ?? null;
  const life = amplificationSincePowerOn();
  const held = (history.newest?.namespaces ?? []).reduce((sum, each) => sum + each.queued, 0);
  const inFlight = (history.newest?.namespaces ?? []).reduce((sum, each) => sum + each.in_flight, 0);
  // Only flash wears.
  const wears = state.value?.sets.some((set) => set.rated_cycles !== null) ?? false;
  const known = drive !== undefined && link.value === "live";
  const show = (text: string) => (known ? text : "–");

  return (
    <dl class="figures" aria-label="The drive now">
      <Figure id="throughput" name="Reads" value={show(rate(total("read")))} note={drive ? `${bytes(drive.lifetime_read)} in all` : ""} />
      <Figure id="throughput" name="Writes" value={show(rate(total("written")))} note={drive ? `${bytes(drive.lifetime_written)} in all` : ""} />
      <Figure id="iops" value={show(count(total("reads") + total("writes")))} note="reads and writes" />
      <Figure id="latency" name="Latency p99" value={show(slowest === null ? "–" : time(slowest))} note="slowest namespace" />
      <Figure id="inFlight" value={show(whole(inFlight))} note={!known ? "" : held > 0 ? `${whole(held)} held back` : "none held back"} />
      <Figure id="amplification" value={show(amplification === null ? "–" : `${digits(amplification)}`)} note={life === null ? "nothing written to flash" : `${digits(life)} since power-on`} />
      <Figure id="collection" value={show(`${digits(history.collections.at(-1) ?? 0)} /s`)} note={drive ? `${whole(drive.collections)} in all` : ""} />
      {wears && drive && <Figure id="wear" value={show(`${drive.used_percent} %`)} note={`${drive.spare_percent} % spare`} />}
    </dl>
  );
}

function Figure({ id, name, value, note }: { id?: TermId; name?: string; value: string; note: string }) {
  return (
    <div class="figure">
      <dt>{id ? <Term id={id}>{name}</Term> : name}</dt>
      <dd>
        <span class="big num">{value}</span>
        <span class="muted">{note}</span>
      </dd>
    </div>
  );
}
