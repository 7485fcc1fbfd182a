import { useState } from "preact/hooks";
import { api, type Namespace } from "../api";
import { confirm } from "../confirm";
import { history, refresh, state, tick } from "../live";
import { attempt } from "../notices";
import { lineOf } from "../prefs";
import { bytes, permille, rate, time, whole } from "../units";
import { Stroke } from "./Chart";
import { placeOf } from "./Charts";
import { Create } from "./Create";
import { QuotaControls } from "./Quota";
import { Fact, MEDIA } from "./Sets";
import { Explain, Term } from "./Term";
import { Why } from "./Why";

/** All namespaces, with what can be done to them. */
export function Namespaces() {
  const known = state.value;
  const [creating, setCreating] = useState(false);
  if (!known) return null;
  const allowed = known.allows.namespaces;
  return (
    <section id="namespaces" aria-labelledby="namespaces-title">
      <div class="section-head">
        <h2 id="namespaces-title">Namespaces</h2>
        <button type="button" class="primary" disabled={allowed !== true} onClick={() => setCreating(true)}>
          Create a namespace
        </button>
      </div>
      <Why allowed={allowed} what="Namespaces cannot be created or deleted here" why="the drive has no namespace management." />
      <Explain ids={["namespace", "attach", "lba", "quota", "burst", "weight"]} />
      {known.namespaces.length === 0 && (
        <p class="card empty">This drive has no namespaces yet. Create one: it needs a size and a medium. Hosts see it as a disk.</p>
      )}
      <div class="cards">
        {known.namespaces.map((namespace) => (
          <NamespaceCard key={namespace.nsid} namespace={namespace} />
        ))}
      </div>
      {creating && <Create onClose={() => setCreating(false)} />}
    </section>
  );
}

function NamespaceCard({ namespace }: { namespace: Namespace }) {
  const manage = state.value?.allows.namespaces === true;
  const { nsid } = namespace;
  // Zones have less room than addresses.
  const writable = namespace.zoned ? namespace.allocated : namespace.size;
  const others = (state.value?.hosts ?? []).filter((host) => !host.view && namespace.controllers.includes(host.cntlid));

  const remove = async () => {
    const users = others.length > 0 ? ` ${others.length === 1 ? "A host uses" : `${others.length} hosts use`} it and will lose it.` : "";
    const yes = await confirm(`Delete namespace ${nsid}?`, `All data of namespace ${nsid} (${bytes(namespace.size)} on ${MEDIA[namespace.medium]}) is lost for good.${users}`, `Delete namespace ${nsid}`);
    if (!yes) return;
    await attempt(() => api.remove(nsid, others.length > 0), { done: `Namespace ${nsid} was deleted.`, failed: `Namespace ${nsid} was not deleted` });
    await refresh();
  };
  const attach = async () => {
    await attempt(() => api.attach(nsid), { done: `Namespace ${nsid} is attached.`, failed: `Namespace ${nsid} was not attached` });
    await refresh();
  };
  const detach = async () => {
    const who = others.length > 0 ? `${others.length === 1 ? "A host uses" : `${others.length} hosts use`} it and will lose it; commands in flight fail. ` : "";
    const yes = await confirm(`Detach namespace ${nsid}?`, `${who}Its data stays. It cannot be read or written until it is attached again.`, `Detach namespace ${nsid}`);
    if (!yes) return;
    await attempt(() => api.detach(nsid), { done: `Namespace ${nsid} is detached.`, failed: `Namespace ${nsid} was not detached` });
    await refresh();
  };

  return (
    <article class="card namespace" id={`namespace-${nsid}`} aria-label={`Namespace ${nsid}`}>
      <header class="row between">
        <h3>
          <Stroke {...lineOf(placeOf(nsid))} /> Namespace {nsid}
          <span class={namespace.attached ? "tag on" : "tag off"}>{namespace.attached ? "attached" : "not attached"}</span>
          {namespace.zoned && (
            <span class="tag">
              <Term id="zoned">zoned</Term>
            </span>
          )}
        </h3>
      </header>
      <dl class="detail">
        <Fact name="Medium" value={`${MEDIA[namespace.medium]}, set ${namespace.set}`} />
        <Fact name="Size" value={bytes(namespace.size)} />
        {namespace.zoned && <Fact name="Writable" value={bytes(writable)} />}
        <Fact name="Used" value={`${bytes(namespace.used)} (${permille(writable > 0 ? (1000 * namespace.used) / writable : 0)})`} />
        <Fact name="Logical block" value={`${namespace.lba_bytes} B${namespace.metadata_bytes > 0 ? ` + ${namespace.metadata_bytes} B` : ""}`} />
        {namespace.zoned && <Fact name="Zones" value={whole(namespace.zone_count)} />}
        <Fact name="Hosts" value={String(others.length)} />
      </dl>
      <Now nsid={nsid} />
      <QuotaControls namespace={namespace} />
      <footer class="row">
        {namespace.attached ? (
          <button type="button" disabled={!manage} onClick={() => void detach()}>
            Detach…
          </button>
        ) : (
          <button type="button" disabled={!manage} onClick={() => void attach()}>
            Attach
          </button>
        )}
        <button type="button" class="danger quiet" disabled={!manage} onClick={() => void remove()}>
          Delete…
        </button>
      </footer>
    </article>
  );
}

/** What a namespace does now, in one line. */
function Now({ nsid }: { nsid: number }) {
  void tick.value;
  const rates = history.namespaces.get(nsid);
  const sample = history.newest?.namespaces.find((other) => other.nsid === nsid);
  if (!rates || !sample) return <p class="now muted">No samples yet</p>;
  const read = rates.read.at(-1) ?? 0;
  const written = rates.written.at(-1) ?? 0;
  const p99 = Math.max(rates.read_p99.at(-1) ?? 0, rates.write_p99.at(-1) ?? 0);
  const held = rates.held.at(-1) ?? 0;
  return (
    <p class="now num">
      <span>
        <span class="muted">reads</span> {rate(read)}
      </span>
      <span>
        <span class="muted">writes</span> {rate(written)}
      </span>
      <span>
        <span class="muted">p99</span> {p99 > 0 ? time(p99) : "–"}
      </span>
      <span>
        <span class="muted">in flight</span> {sample.in_flight}
      </span>
      {(sample.queued > 0 || held > 0.01) && <span class="held">{sample.queued} held back</span>}
    </p>
  );
}
