import { useEffect, useRef, useState } from "preact/hooks";
import { api, type FlashMap, type NvmSet, type SetMap, type Superblock } from "../api";
import { look, poll, state } from "../live";
import { lineOf } from "../prefs";
import { bytes, permille, whole } from "../units";
import { CellMap, Legend, type Cell } from "./CellMap";
import { Choice, placeOf } from "./Charts";
import { Dies } from "./Dies";
import { Explain, Term } from "./Term";

export const MEDIA = { nand: "NAND flash", dram: "DRAM", pmem: "Persistent memory", disk: "Hard disk" } as const;

/** Each NVM Set with a map of its contents. */
export function Sets() {
  const sets = state.value?.sets ?? [];
  return (
    <section id="media" aria-labelledby="media-title">
      <div class="section-head">
        <h2 id="media-title">Media</h2>
      </div>
      <Explain ids={["nvmset", "die", "superblock", "valid", "collection", "wear"]} />
      <div class={sets.length > 1 ? "sets" : "sets single"}>
        {sets.map((set) => (
          <SetCard key={set.id} set={set} />
        ))}
      </div>
    </section>
  );
}

function SetCard({ set }: { set: NvmSet }) {
  const box = useRef<HTMLElement>(null);
  const [map, setMap] = useState<SetMap | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let seen = true;
    const watch = new IntersectionObserver((entries) => (seen = entries.at(-1)?.isIntersecting ?? true), { rootMargin: "200px" });
    if (box.current) watch.observe(box.current);
    const end = poll(
      async () => setError(await look(() => api.map(set.id), setMap)),
      1000,
      () => seen,
    );
    return () => {
      end();
      watch.disconnect();
    };
  }, [set.id]);

  return (
    <article ref={box} class="card set" aria-label={`Set ${set.id}, ${MEDIA[set.medium]}`}>
      <header>
        <h3>
          Set {set.id} <span class="tag">{MEDIA[set.medium]}</span>
          {set.zones && (
            <span class="tag">
              <Term id="zone">zones</Term>
            </span>
          )}
        </h3>
        <p class="muted">
          {bytes(set.capacity)}
          {set.dies > 0 && set.medium !== "disk" && (
            <>
              {" · "}
              {set.dies} {set.medium === "nand" ? <Term id="die">{set.dies === 1 ? "die" : "dies"}</Term> : set.dies === 1 ? "bank" : "banks"}
            </>
          )}
          {set.rated_cycles !== null && set.endurance_used_percent !== null && (
            <>
              {" · "}
              {set.endurance_used_percent} % <Term id="wear">worn</Term>
            </>
          )}
          {set.rated_cycles !== null && set.spare_percent !== null && (
            <>
              {" · "}
              {set.spare_percent} % <Term id="spare">spare</Term>
            </>
          )}
        </p>
      </header>
      <Allocation set={set} />
      {map && !("superblocks" in map) && <Use map={map} />}
      {error !== "" && <p class="inline-error">{error}</p>}
      {map && "superblocks" in map && (
        <div class="maps">
          <Dies set={set} />
          <Flash map={map} set={set} />
        </div>
      )}
    </article>
  );
}

/** Which namespaces have which part of the set. */
function Allocation({ set }: { set: NvmSet }) {
  const here = (state.value?.namespaces ?? []).filter((namespace) => namespace.set === set.id);
  const width = 1000;
  let from = 0;
  return (
    <div class="allocation">
      <svg viewBox={`0 0 ${width} 10`} preserveAspectRatio="none" role="img" aria-label={allocationWords(set)}>
        <rect class="track" width={width} height="10" />
        {here.map((namespace) => {
          const part = set.capacity > 0 ? (namespace.allocated / set.capacity) * width : 0;
          const at = from;
          from += part;
          return <rect key={namespace.nsid} class={`fill-${lineOf(placeOf(namespace.nsid)).colour}`} x={at + 1} width={Math.max(1, part - 2)} height="10" />;
        })}
      </svg>
      <p class="muted">{allocationWords(set)}</p>
    </div>
  );
}

function allocationWords(set: NvmSet): string {
  const here = (state.value?.namespaces ?? []).filter((namespace) => namespace.set === set.id);
  const parts = here.map((namespace) => `namespace ${namespace.nsid}: ${bytes(namespace.allocated)}`);
  if (here.length > 4) parts.splice(0, parts.length, `${here.length} namespaces: ${bytes(here.reduce((sum, namespace) => sum + namespace.allocated, 0))}`);
  parts.push(`unallocated: ${bytes(set.unallocated)}`);
  const text = parts.join(" · ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

type View = "contents" | "wear";

function Flash({ map, set }: { map: FlashMap; set: NvmSet }) {
  const [view, setView] = useState<View>("contents");
  const [selected, setSelected] = useState(0);
  const blocks = map.superblocks;
  const erases = blocks.filter((block) => block.state !== "bad").map((block) => block.erases);
  const least = erases.reduce((min, value) => Math.min(min, value), erases[0] ?? 0);
  const most = erases.reduce((max, value) => Math.max(max, value), 0);
  // One erase more is one step of colour at most: noise does not look like wear.
  const top = Math.max(most, least + WEAR_STEPS - 1);
  const cells = blocks.map((block) => (view === "wear" ? wearCell(block, least, top) : contentsCell(block)));
  const describe = (index: number) => words(blocks[index], index, map);
  const chosen = Math.min(selected, blocks.length - 1);
  const block = blocks[chosen];

  return (
    <div class="flash">
      <div class="row between">
        <p class="muted">
          {whole(blocks.length)} <Term id="superblock">superblocks</Term> of {bytes(set.superblock_bytes)}, with {bytes(Math.max(0, blocks.length * set.superblock_bytes - set.capacity))}{" "}
          <Term id="overProvisioning">over-provisioning</Term>
        </p>
        <Choice
          label={`Colours of set ${map.set}`}
          options={[
            ["contents", "Contents"],
            ["wear", "Wear"],
          ]}
          value={view}
          onChange={setView}
        />
      </div>
      <CellMap cells={cells} label={`Superblocks of set ${map.set}`} describe={describe} selected={chosen} onSelect={setSelected} />
      {view === "contents" ? <ContentsLegend blocks={blocks} /> : <WearLegend least={least} most={most} top={top} limit={map.erase_limit} />}
      {block && <Detail block={block} index={chosen} map={map} />}
    </div>
  );
}

function contentsCell(block: Superblock): Cell {
  const valid = block.valid_permille / 1000;
  const written = block.written_permille / 1000;
  switch (block.state) {
    case "bad":
      return { fill: "cell-bad", level: 0, sign: "cross" };
    case "collecting":
      return { fill: "cell-collecting", level: valid, upper: Math.max(written, 0.05), upperFill: "cell-collecting-stale", sign: "hatch" };
    case "erasing":
      return { fill: "cell-collecting", level: 0, sign: "dot" };
    case "open":
      return { fill: "cell-open", level: valid, upper: written, upperFill: "cell-stale", sign: "frame" };
    case "zone":
      return { fill: "cell-zone", level: valid, upper: written, upperFill: "cell-stale", ...(block.zone_state?.includes("opened") ? { sign: "bar" as const } : {}) };
    case "closed":
      return { fill: "cell-valid", level: valid, upper: written, upperFill: "cell-stale" };
    case "free":
      return { fill: "cell-free", level: 0 };
  }
}

/** Steps of colour from the least erases to the top of the scale. */
const WEAR_STEPS = 8;

function wearCell(block: Superblock, least: number, top: number): Cell {
  if (block.state === "bad") return { fill: "cell-bad", level: 0, sign: "cross" };
  const share = (block.erases - least) / (top - least);
  return { fill: `wear-${Math.min(WEAR_STEPS, 1 + Math.floor(share * WEAR_STEPS))}`, level: 1 };
}

const STATES: Record<Superblock["state"], string> = {
  free: "free",
  open: "open: being written",
  closed: "full",
  collecting: "being collected",
  erasing: "being erased",
  zone: "has zones",
  bad: "bad: not used any more",
};

function words(block: Superblock | undefined, index: number, map: FlashMap): string {
  if (!block) return "";
  const parts = [`Superblock ${index}: ${STATES[block.state]}`];
  if (block.state !== "free" && block.state !== "bad") parts.push(`${permille(block.written_permille)} written`, `${permille(block.valid_permille)} valid`);
  if (block.nsid !== undefined) parts.push(`namespace ${block.nsid}`);
  if (block.zone !== undefined) parts.push(`zone ${block.zone}${(block.zones ?? 1) > 1 ? ` and ${(block.zones ?? 1) - 1} more` : ""}${block.zone_state ? `, ${block.zone_state}` : ""}`);
  parts.push(map.erase_limit === null ? `${block.erases} erases` : `${block.erases} of ${whole(map.erase_limit)} erases`);
  return parts.join(", ");
}

function Detail({ block, index, map }: { block: Superblock; index: number; map: FlashMap }) {
  const size = map.superblock_pages * map.page_bytes;
  return (
    <dl class="detail" aria-label="The chosen superblock">
      <Fact name="Superblock" value={String(index)} />
      <Fact name="State" value={STATES[block.state]} />
      <Fact name="Written" value={`${bytes((size * block.written_permille) / 1000)} (${permille(block.written_permille)})`} />
      <Fact name="Valid" value={`${bytes((size * block.valid_permille) / 1000)} (${permille(block.valid_permille)})`} />
      <Fact name="Erases" value={map.erase_limit === null ? String(block.erases) : `${block.erases} of ${whole(map.erase_limit)}`} />
      {block.nsid !== undefined && <Fact name="Namespace" value={String(block.nsid)} />}
      {block.zone !== undefined && <Fact name="Zone" value={`${block.zone}${block.zone_state ? `, ${block.zone_state}` : ""}`} />}
    </dl>
  );
}

export function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="num">{value}</dd>
    </div>
  );
}

function ContentsLegend({ blocks }: { blocks: readonly Superblock[] }) {
  const of = (state: Superblock["state"]) => blocks.reduce((sum, block) => sum + (block.state === state ? 1 : 0), 0);
  const entries: { cell: Cell; name: string; count: number; always: boolean }[] = [
    { cell: { fill: "cell-free", level: 0 }, name: "Free", count: of("free"), always: true },
    { cell: { fill: "cell-open", level: 0.5, sign: "frame" }, name: "Open", count: of("open"), always: true },
    { cell: { fill: "cell-valid", level: 0.6, upper: 1, upperFill: "cell-stale" }, name: "Full: valid below, stale above", count: of("closed"), always: true },
    { cell: { fill: "cell-collecting", level: 0.4, upper: 1, upperFill: "cell-collecting-stale", sign: "hatch" }, name: "Being collected", count: of("collecting"), always: true },
    { cell: { fill: "cell-collecting", level: 0, sign: "dot" }, name: "Being erased", count: of("erasing"), always: false },
    { cell: { fill: "cell-zone", level: 1 }, name: "Zones", count: of("zone"), always: false },
    { cell: { fill: "cell-bad", level: 0, sign: "cross" }, name: "Bad", count: of("bad"), always: false },
  ];
  return <Legend entries={entries.filter((entry) => entry.always || entry.count > 0)} />;
}

function WearLegend({ least, most, top, limit }: { least: number; most: number; top: number; limit: number | null }) {
  return (
    <p class="ramp">
      <span class="num">{least}</span>
      <span class="steps" aria-hidden="true">
        {Array.from({ length: WEAR_STEPS }, (_, step) => (
          <i key={step} class={`wear-${step + 1}`} />
        ))}
      </span>
      <span class="num">{top}</span>
      <span class="muted">
        erases. Superblocks have {least === most ? least : `${least} to ${most}`}
        {limit === null ? "" : `, and are rated for ${whole(limit)}`}
      </span>
    </p>
  );
}

/** How much of a set without superblocks is in use. */
function Use({ map }: { map: { capacity: number; used: number } }) {
  const share = map.capacity > 0 ? map.used / map.capacity : 0;
  return (
    <div class="use">
      <svg viewBox="0 0 1000 26" preserveAspectRatio="none" role="img" aria-label={`${permille(share * 1000)} in use`}>
        <rect class="track" width="1000" height="26" />
        <rect class="used" width={share * 1000} height="26" />
      </svg>
      <p class="muted">
        {bytes(map.used)} in use of {bytes(map.capacity)} ({permille(share * 1000)})
      </p>
    </div>
  );
}
