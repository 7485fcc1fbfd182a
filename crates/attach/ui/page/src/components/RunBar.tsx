import { api, type Run } from "../api";
import { history, refresh, state, tick } from "../live";
import { attempt } from "../notices";
import { permille, time } from "../units";
import { Choice } from "./Charts";
import { Term } from "./Term";

type Speed = Run["speed"];

const SPEEDS: readonly (readonly [Speed, string])[] = [
  [0.01, "× 0.01"],
  [0.1, "× 0.1"],
  [1, "× 1"],
  [10, "× 10"],
  [100, "× 100"],
  ["max", "Max"],
];

const ENDS = {
  complete: "The run has ended. This is its last state. Its results are in the terminal of tranche sim; Ctrl-C there closes this page.",
  interrupted: "The run was interrupted. This is its last state.",
  failed: "The run failed. This is its last state. The terminal of tranche sim shows the reason.",
} as const;

/** The run whose drive is shown: how far it is, how fast it goes. */
export function RunBar() {
  void tick.value;
  const run = state.value?.run;
  if (!run) return null;
  const sample = history.newest;
  const done = run.end === "complete" ? 1 : (sample?.done ?? 0);
  return (
    <section id="run" class="card run" aria-labelledby="run-title">
      <div class="row between">
        <h2 id="run-title">Simulated run of {run.load}</h2>
        {run.end === null && <Controls run={run} />}
      </div>
      <progress max={1} value={done} aria-label="Share of the load that is done" />
      <p class="progress num">
        {time(sample?.at_ns ?? 0)} of <Term id="virtualTime">virtual time</Term>
        {done > 0 && <>, {permille(1000 * done)} of the load</>}
      </p>
      <p role="status" class={run.end === null ? "hidden-words" : `ended ${run.end}`}>
        {run.end === null ? (run.paused ? "The run is paused." : "The run continues.") : ENDS[run.end]}
      </p>
    </section>
  );
}

function Controls({ run }: { run: Run }) {
  const change = async (failed: string, pace: { speed?: Speed; paused?: boolean }) => {
    await attempt(() => api.pace(pace), { failed });
    await refresh();
  };
  const speeds = SPEEDS.some(([speed]) => speed === run.speed) ? SPEEDS : [...SPEEDS, [run.speed, `× ${run.speed}`] as const];
  return (
    <div class="controls">
      <Choice label="Virtual seconds for each real one" options={speeds} value={run.speed} onChange={(speed) => void change("The speed was not changed", { speed })} />
      <button type="button" onClick={() => void change(run.paused ? "The run was not continued" : "The run was not paused", { paused: !run.paused })}>
        {run.paused ? "Continue" : "Pause"}
      </button>
    </div>
  );
}
