import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { refresh, state } from "../live";
import { attempt } from "../notices";
import { bytes, parseSize } from "../units";
import { MEDIA } from "./Sets";
import { Term } from "./Term";

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

  const most = chosen?.unallocated ?? 0;
  const wanted = size.trim() === "" ? null : parseSize(size);
  const withZones = zoned && (chosen?.zones ?? false);
  const zoneSize = withZones ? (chosen?.zone_size ?? 0) : 0;
  const wrong =
    size.trim() === ""
      ? ""
      : wanted === null
        ? "Write a size, such as 4 GiB, 512 MiB or a number of bytes."
        : wanted === 0
          ? "A namespace needs some room."
          : wanted > most
            ? `Set ${set} has ${bytes(most)} left.`
            : "";
  const ready = wanted !== null && wrong === "" && !busy;

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready || !chosen) return;
    setBusy(true);
    const went = await attempt(`Create a namespace of ${bytes(wanted)} in set ${set}`, () => api.create({ set, size: wanted, lba_bytes: block, zoned: withZones, attach }));
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
              placeholder="4 GiB"
              autocomplete="off"
              spellcheck={false}
              required
              value={size}
              aria-invalid={wrong !== ""}
              aria-describedby={`${id}-hint`}
              onInput={(event) => setSize(event.currentTarget.value)}
            />
            <button type="button" disabled={most === 0} onClick={() => setSize(String(most))}>
              All that is left
            </button>
          </span>
          <small id={`${id}-hint`} class={wrong === "" ? "muted" : "inline-error"} role={wrong === "" ? undefined : "alert"}>
            {wrong || (wanted !== null ? bytes(wanted) : `Up to ${bytes(most)}`) + (zoneSize > 0 ? `. Zones have ${bytes(zoneSize)} each.` : "")}
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
              With <Term id="zone">zones</Term>: written in order, nothing to collect
            </span>
          </label>
        )}
        <label class="check">
          <input type="checkbox" checked={attach} onChange={(event) => setAttach(event.currentTarget.checked)} />
          <span>Attach it, so that hosts can use it at once</span>
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
