import { useEffect } from "preact/hooks";
import type { Run } from "./api";
import { link, reason, state } from "./live";
import { explanations, scheme, type Scheme } from "./prefs";
import { Banner, Notices } from "./components/Banner";
import { Charts } from "./components/Charts";
import { Confirm } from "./components/Confirm";
import { Faults } from "./components/Faults";
import { Figures } from "./components/Figures";
import { Namespaces } from "./components/Namespaces";
import { RunBar } from "./components/RunBar";
import { Sets } from "./components/Sets";
import { Studies } from "./components/Studies";
import { Zones } from "./components/Zones";

const LINKS = { connecting: "connecting", live: "live", gone: "drive gone", lost: "no connection" } as const;

export function App() {
  const known = state.value;
  useEffect(() => {
    if (known) document.title = `${link.value === "live" ? "" : "⚠ "}${known.drive.model} · Tranche`;
  }, [known, link.value]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the drive
      </a>
      <Header />
      <main id="main" tabIndex={-1} class={link.value === "gone" || link.value === "lost" ? "stale" : ""}>
        <Banner />
        {known ? (
          <>
            <RunBar />
            <Figures />
            <Charts />
            <Sets />
            <Namespaces />
            <Zones />
            <Faults />
            <Studies />
          </>
        ) : (
          <p class="waiting muted">{link.value === "connecting" ? reason.value || "Waiting for the drive…" : ""}</p>
        )}
      </main>
      <footer class="page-foot muted">
        {known && (
          <>
            <span>
              Firmware {known.drive.firmware} · view {known.view.version}
            </span>
            <span class="nqn">{known.drive.nqn}</span>
            {known.drive.address !== "" && <span>Hosts connect to {known.drive.address}</span>}
          </>
        )}
        <a href="./third-party-notices.txt">Third-party notices</a>
      </footer>
      <Notices />
      <Confirm />
    </>
  );
}

/** The state of a run, or of a drive that is served. */
function liveWords(run: Run | null): string {
  if (run?.end) return run.end === "complete" ? "run ended" : `run ${run.end}`;
  return run?.paused ? "paused" : LINKS.live;
}

function Header() {
  const known = state.value;
  const zoned = known !== null && known.run === null && known.namespaces.some((namespace) => namespace.zoned);
  return (
    <header class="page-head">
      <div class="brand">
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect x="3" y="4" width="7" height="24" rx="2" />
          <rect x="12.5" y="11" width="7" height="17" rx="2" opacity=".75" />
          <rect x="22" y="18" width="7" height="10" rx="2" opacity=".5" />
        </svg>
        <h1>
          {known?.drive.model ?? "Tranche"}
          {known && <span class="serial muted">{known.drive.serial}</span>}
        </h1>
        <span class={`pill ${link.value}`}>
          <i aria-hidden="true" /> {link.value === "live" ? liveWords(known?.run ?? null) : LINKS[link.value]}
        </span>
      </div>
      <nav aria-label="Parts of the page">
        <a href="#performance">Performance</a>
        <a href="#media">Media</a>
        <a href="#namespaces">Namespaces</a>
        {zoned && <a href="#zones">Zones</a>}
        <a href="#faults">Faults</a>
        <a href="#studies">Reports</a>
      </nav>
      <div class="prefs">
        <button type="button" class="quiet" aria-pressed={explanations.value} onClick={() => (explanations.value = !explanations.value)}>
          Explain terms
        </button>
        <label>
          <span class="hidden-words">Colours</span>
          <select value={scheme.value} onChange={(event) => (scheme.value = event.currentTarget.value as Scheme)}>
            <option value="auto">System colours</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </div>
    </header>
  );
}
