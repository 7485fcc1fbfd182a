import { useEffect, useRef, useState } from "preact/hooks";
import { api, type Namespace, type Zone, type ZoneAction, type Zones as ZoneList } from "../api";
import { confirm } from "../confirm";
import { look, poll, refresh, state } from "../live";
import { attempt } from "../notices";
import { bytes, permille, whole } from "../units";
import { CellMap, Legend, type Cell } from "./CellMap";
import { Fact } from "./Sets";
import { Explain, Term } from "./Term";

/** Zoned namespaces, zone by zone. */
export function Zones() {
  // A run has no list of zones: they are in the map of superblocks.
  const zoned = state.value?.run ? [] : (state.value?.namespaces ?? []).filter((namespace) => namespace.zoned);
  if (zoned.length === 0) return null;
  return (
    <section id="zones" aria-labelledby="zones-title">
      <div class="section-head">
        <h2 id="zones-title">Zones</h2>
      </div>
      <Explain ids={["zoned", "zone", "writePointer"]} />
      {zoned.map((namespace) => (
        <ZoneCard key={namespace.nsid} namespace={namespace} />
      ))}
    </section>
  );
}

function ZoneCard({ namespace }: { namespace: Namespace }) {
  const box = useRef<HTMLElement>(null);
  const [list, setList] = useState<ZoneList | null>(null);
  const [error, setError] = useState("");
  const [selected, setSelected] = useState(0);
  const { nsid } = namespace;

  const load = async () => setError(await look(() => api.zones(nsid), setList));
  useEffect(() => {
    if (!namespace.attached_here) return;
    let seen = true;
    const watch = new IntersectionObserver((entries) => (seen = entries.at(-1)?.isIntersecting ?? true), { rootMargin: "200px" });
    if (box.current) watch.observe(box.current);
    const end = poll(load, 1000, () => seen);
    return () => {
      end();
      watch.disconnect();
    };
  }, [nsid, namespace.attached_here]);

  const attach = async () => {
    await attempt(() => api.attach(nsid), { done: `Namespace ${nsid} is attached.`, failed: `Namespace ${nsid} was not attached` });
    await refresh();
  };

  const zones = list?.zones ?? [];
  const chosen = Math.min(selected, zones.length - 1);
  const zone = zones[chosen];
  return (
    <article ref={box} class="card zones" aria-label={`Zones of namespace ${nsid}`}>
      <header>
        <h3>Namespace {nsid}</h3>
        {list && (
          <p class="muted">
            {whole(zones.length)} <Term id="zone">zones</Term> of {bytes(list.zone_bytes)} · at most {list.max_open} open, {list.max_active} active
          </p>
        )}
      </header>
      {!namespace.attached_here && (
        <p class="why">
          The zones of a namespace are shown while it is attached.{" "}
          <button type="button" disabled={state.value?.allows.namespaces !== true} onClick={() => void attach()}>
            Attach namespace {nsid}
          </button>
        </p>
      )}
      {error !== "" && namespace.attached_here && <p class="inline-error">{error}</p>}
      {list && namespace.attached_here && (
        <>
          <CellMap cells={zones.map(cellOf)} label={`Zones of namespace ${nsid}`} describe={(index) => words(zones[index], index)} selected={chosen} onSelect={setSelected} />
          <ZoneLegend zones={zones} />
          {zone && <ZoneDetail nsid={nsid} zone={zone} index={chosen} after={load} />}
        </>
      )}
    </article>
  );
}

/** The part of a zone that is written. */
function written(zone: Zone): number {
  if (zone.state === "full") return 1;
  if (zone.write_pointer === null || zone.capacity <= 0) return 0;
  return Math.max(0, Math.min(1, (zone.write_pointer - zone.start) / zone.capacity));
}

function cellOf(zone: Zone): Cell {
  const level = written(zone);
  switch (zone.state) {
    case "empty":
      return { fill: "cell-free", level: 0 };
    case "implicitly opened":
      return { fill: "cell-open", level, sign: "frame" };
    case "explicitly opened":
      return { fill: "cell-open", level, sign: "bar" };
    case "closed":
      return { fill: "cell-valid", level, sign: "dot" };
    case "full":
      return { fill: "cell-zone", level: 1 };
    case "read only":
      return { fill: "cell-collecting", level: Math.max(level, 0.1), sign: "hatch" };
    case "offline":
      return { fill: "cell-bad", level: 0, sign: "cross" };
  }
}

const NAMES: readonly Zone["state"][] = ["empty", "implicitly opened", "explicitly opened", "closed", "full", "read only", "offline"];

function ZoneLegend({ zones }: { zones: readonly Zone[] }) {
  const entries = NAMES.map((name) => ({
    cell: cellOf({ state: name, start: 0, write_pointer: name === "empty" ? 0 : 50, capacity: 100 }),
    name: name.charAt(0).toUpperCase() + name.slice(1),
    count: zones.reduce((sum, zone) => sum + (zone.state === name ? 1 : 0), 0),
  }));
  return <Legend entries={entries.filter((entry, index) => entry.count > 0 || index < 5)} />;
}

function words(zone: Zone | undefined, index: number): string {
  return zone ? `Zone ${index}: ${zone.state}, ${permille(1000 * written(zone))} written` : "";
}

const ACTIONS: readonly { action: ZoneAction; name: string; from: readonly Zone["state"][] }[] = [
  { action: "open", name: "Open", from: ["empty", "implicitly opened", "closed"] },
  { action: "close", name: "Close", from: ["implicitly opened", "explicitly opened"] },
  { action: "finish", name: "Finish…", from: ["empty", "implicitly opened", "explicitly opened", "closed"] },
  { action: "reset", name: "Reset…", from: ["implicitly opened", "explicitly opened", "closed", "full"] },
];

function ZoneDetail({ nsid, zone, index, after }: { nsid: number; zone: Zone; index: number; after: () => Promise<void> }) {
  const act = async (action: ZoneAction) => {
    const asks = {
      reset: ["Reset", `All data of zone ${index} of namespace ${nsid} is lost for good.`],
      finish: ["Finish", `Zone ${index} of namespace ${nsid} becomes full. Its unwritten part cannot be used until a reset.`],
    } as const;
    if (action === "reset" || action === "finish") {
      const [name, text] = asks[action];
      if (!(await confirm(`${name} zone ${index}?`, text, `${name} zone ${index}`))) return;
    }
    const zoneWords = `Zone ${index} of namespace ${nsid}`;
    const past = { open: "opened", close: "closed", finish: "finished", reset: "reset" }[action];
    await attempt(() => api.zone(nsid, zone.start, action), { done: `${zoneWords} was ${past}.`, failed: `${zoneWords} was not ${past}` });
    await after();
  };
  return (
    <>
      <dl class="detail" aria-label="The chosen zone">
        <Fact name="Zone" value={String(index)} />
        <Fact name="State" value={zone.state} />
        <Fact name="Starts at" value={bytes(zone.start)} />
        <Fact name="Written" value={`${bytes(written(zone) * zone.capacity)} of ${bytes(zone.capacity)}`} />
        <Fact name="Write pointer" value={zone.write_pointer === null ? "none" : bytes(zone.write_pointer)} />
      </dl>
      <div class="row" role="group" aria-label={`Actions on zone ${index}`}>
        {ACTIONS.map(({ action, name, from }) => (
          <button key={action} type="button" class={action === "reset" ? "danger quiet" : ""} disabled={!from.includes(zone.state)} onClick={() => void act(action)}>
            {name}
          </button>
        ))}
      </div>
    </>
  );
}
