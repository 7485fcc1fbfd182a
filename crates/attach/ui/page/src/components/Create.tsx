import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, type NvmSet } from "../api";
import { refresh, state } from "../live";
import { attempt } from "../notices";
import { bytes, exampleSize, parseSize } from "../units";
import { MEDIA } from "./Sets";
import { Term } from "./Term";

/** Zones take whole MiB of a set. */
const ZONE_GRANULE = 1 << 20;

/** The largest namespace that fits into a set. Zones take their capacity of the set, and their size of addresses. */
function roomFor(set: NvmSet, withZones: boolean): number {
  if (!withZones) return set.unallocated;
  const taken = Math.ceil(set.zone_capacity / ZONE_GRANULE) * ZONE_GRANULE;
  return taken > 0 ? Math.floor(set.unallocated / taken) * set.zone_size : 0;
}

/** A new namespace: where, how large, of which kind. */
export function Create({ onClose }: { onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const known = state.value;
  const sets = known?.sets ?? [];
  const roomy = sets.find((set) => set.unallocated > 0) ?? sets[0];
  const [set, setSet] = useState(roomy?.id ?? 0);
  const chosen = sets.find((other) => other.id === set);
  const [size, setSize] = useState("");
  const [block, setBlock] = useState(known?.lba_formats.includes(4096) ? 4096 : (known?.lba_formats[0] ?? 4096));
  const [attach, setAttach] = useState(true);
  const [zoned, setZoned] = useState(false);
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => box.current?.showModal(), []);

  const wanted = size.trim() === "" ? null : parseSize(size);
  const withZones = zoned && (chosen?.zones ?? false);
  const zoneSize = withZones ? (chosen?.zone_size ?? 0) : 0;
  const most = chosen ? roomFor(chosen, withZones) : 0;
  const unit = withZones ? zoneSize : block;
  const wrong =
    withZones && chosen?.active_zones_left === 0
      ? `Other namespaces take all active zones of set ${set}.`
      : size.trim() === ""
        ? ""
        : wanted === null
          ? `Enter a size, such as ${exampleSize(most, unit)}, or a number of bytes.`
          : wanted === 0
            ? "The size has to be more than 0."
            : wanted > most
              ? withZones
                ? `Set ${set} has room for ${bytes(most)} of zones.`
                : `Set ${set} has ${bytes(most)} left.`
              : wanted % unit !== 0
                ? `The size has to be a multiple of ${bytes(unit)}${withZones ? ", the size of a zone" : ", a logical block"}.`
                : "";
  const ready = wanted !== null && wrong === "" && !busy;

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready || !chosen) return;
    setBusy(true);
    const went = await attempt(() => api.create({ set, size: wanted, lba_bytes: block, zoned: withZones, attach }), {
      done: ({ nsid }) => `Namespace ${nsid} was created: ${bytes(wanted)} in set ${set}.`,
      failed: "The namespace was not created",
    });
    setBusy(false);
    if (went) box.current?.close();
    await refresh();
  };

  return (
    <dialog ref={box} class="create" aria-labelledby={`${id}-title`} onClose={onClose}>
      <h2 id={`${id}-title`}>Create a namespace</h2>
      <form onSubmit={(event) => void submit(event)}>
        <label class="field">
          <span>
            <Term id="nvmset">Medium</Term>
          </span>
          <select value={set} onChange={(event) => setSet(Number(event.currentTarget.value))}>
            {sets.map((other) => (
              <option key={other.id} value={other.id}>
                Set {other.id}: {MEDIA[other.medium]}
                {other.zones ? " with zones" : ""}, {bytes(other.unallocated)} left
              </option>
            ))}
          </select>
        </label>
        <div class="field">
          <label for={`${id}-size`}>Size</label>
          <span class="row">
            <input
              id={`${id}-size`}
              type="text"
              placeholder={most > 0 ? exampleSize(most, unit) : ""}
              autocomplete="off"
              spellcheck={false}
              autofocus
              required
              value={size}
              aria-invalid={wrong !== ""}
              aria-describedby={`${id}-hint`}
              onInput={(event) => setSize(event.currentTarget.value)}
            />
            <button type="button" disabled={most === 0} onClick={() => setSize(parseSize(bytes(most)) === most ? bytes(most) : String(most))}>
              Use all
            </button>
          </span>
          <small id={`${id}-hint`} class={wrong === "" ? "muted" : "inline-error"} role={wrong === "" ? undefined : "alert"}>
            {wrong || (wanted !== null ? bytes(wanted) : most > 0 ? `Up to ${bytes(most)}` : `Set ${set} has no room left`) + (zoneSize > 0 ? `, in zones of ${bytes(zoneSize)}` : "")}
          </small>
        </div>
        <label class="field">
          <span>
            <Term id="lba" />
          </span>
          <select value={block} onChange={(event) => setBlock(Number(event.currentTarget.value))}>
            {(known?.lba_formats ?? []).map((format) => (
              <option key={format} value={format}>
                {format} B
              </option>
            ))}
          </select>
        </label>
        {chosen?.zones && (
          <label class="check">
            <input type="checkbox" checked={zoned} onChange={(event) => setZoned(event.currentTarget.checked)} />
            <span>
              With <Term id="zone">zones</Term>: written in order, without garbage collection
            </span>
          </label>
        )}
        <label class="check">
          <input type="checkbox" checked={attach} onChange={(event) => setAttach(event.currentTarget.checked)} />
          <span>Attach it to all hosts</span>
        </label>
        <div class="row end">
          <button type="button" onClick={() => box.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={!ready}>
            {busy ? "Creating…" : "Create"}
          </button>
        </div>
      </form>
    </dialog>
  );
}
