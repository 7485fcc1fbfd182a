// What the page knows of the drive, and how it learns it: state by request, samples as they come.

import { signal } from "@preact/signals";
import { ApiError, api, type Sample, type State } from "./api";
import { History } from "./history";
import { span } from "./prefs";

/**
 * connecting: nothing was heard yet. live: samples come. gone: the view is there, the drive is not.
 * lost: the view itself does not answer.
 */
export type Link = "connecting" | "live" | "gone" | "lost";

/** Samples are kept for so many: 15 minutes of two a second. */
const KEPT = 1800;
/** How long the page shows what is back. */
const BACK_MS = 8000;
/** How long the stream may be silent before the page says so, at least. */
const SILENCE_MS = 5000;
/** How long until the page tries again where the browser does not. */
const RETRY_MS = 2000;
/** The status of a request that comes before there is something to see. */
const TOO_EARLY = 425;
/** The statuses of requests while the drive is away. */
const AWAY: readonly number[] = [503, 504];

export const state = signal<State | null>(null);
export const link = signal<Link>("connecting");
export const reason = signal("");
/** What is back: shown for some seconds. */
export const back = signal<"" | "drive" | "connection">("");
/** Raised by one for each sample: who shows the history depends on it. */
export const tick = signal(0);
export const history = new History(KEPT);
/** Samples of a second. */
const PER_SECOND = 2;

/** Seconds of the drive's time that charts show. Virtual time passes fast or slowly: a run's charts show as many samples as others do. */
export function shownSeconds(): number {
  if (!state.value?.run) return span.value;
  return Math.max(1e-6, history.lasting(PER_SECOND * span.value) * (1 + 1e-9));
}

/** Whether a namespace is on flash: only there the drive writes more than hosts do. */
function onFlash(nsid: number): boolean {
  return state.value?.namespaces.find((namespace) => namespace.nsid === nsid)?.medium === "nand";
}

/** The write amplification of all that hosts wrote to flash since power-on; null if they wrote nothing. */
export function amplificationSincePowerOn(): number | null {
  const counts = (history.newest?.namespaces ?? []).filter(({ nsid }) => onFlash(nsid));
  const total = (field: "written" | "media_written") => counts.reduce((sum, each) => sum + each[field], 0);
  return total("written") > 0 ? total("media_written") / total("written") : null;
}

let source: EventSource | null = null;
let backTimer = 0;
let lastHeard = 0;

/** Begins, and goes on for as long as the page is open. */
export function start(): void {
  void refresh();
  listen();
  setInterval(() => {
    // A run that is over or paused has nothing to say.
    const run = state.value?.run;
    if (run && (run.paused || run.end !== null)) lastHeard = performance.now();
    const interval = state.value?.view.interval_ms ?? 500;
    const silent = performance.now() - lastHeard > Math.max(SILENCE_MS, 5 * interval);
    if (link.value === "live" && silent) down("lost", "The live view has sent nothing for some seconds.");
  }, 1000);
}

/** Asks for the state anew. */
export async function refresh(): Promise<void> {
  try {
    state.value = await api.state();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === TOO_EARLY) return wait(error.message);
    // Samples, or what the server said when the drive went, tell more.
    if (link.value === "live" || link.value === "gone") return;
    // Without an answer, or refused: it is the view that is not there, and not the drive.
    down([0, 401, 403].includes(error.status) ? "lost" : "gone", error.message);
  }
}

function listen(): void {
  source?.close();
  source = new EventSource("/api/samples");
  source.addEventListener("sample", (event) => {
    let sample: Sample;
    try {
      sample = JSON.parse((event as MessageEvent<string>).data) as Sample;
    } catch {
      down("lost", "The live view sent a sample that cannot be read.");
      return;
    }
    lastHeard = performance.now();
    up();
    history.push(sample, onFlash);
    tick.value += 1;
  });
  source.addEventListener("state", () => {
    lastHeard = performance.now();
    // Of a run that is over or paused no sample will come to say that all is well.
    if (link.value === "lost") up();
    void refresh();
  });
  source.addEventListener("gone", (event) => {
    const told = (event as MessageEvent<string>).data;
    if (isEarly(told)) wait(wordsOf(told));
    else down("gone", wordsOf(told));
  });
  source.addEventListener("error", () => {
    down("lost", "Check whether tranche is still running.");
    // After an answer that is no stream the browser does not try again by itself.
    if (source?.readyState === EventSource.CLOSED) {
      setTimeout(listen, RETRY_MS);
      void refused();
    }
  });
}

/** Says why there is no stream of samples, if the server answers at all. */
async function refused(): Promise<void> {
  try {
    state.value = await api.state();
    if (link.value === "lost") reason.value = "It answers, but sends this page no samples. Too many pages may be open: close some.";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (link.value === "lost") reason.value = error.message;
  }
}

function wordsOf(data: string): string {
  try {
    const told: unknown = JSON.parse(data);
    if (typeof told === "string") return told;
    if (typeof told === "object" && told !== null) {
      if ("reason" in told) return String(told.reason);
      if ("error" in told) return String(told.error);
    }
  } catch {
    // No reason was given.
  }
  return "";
}

/** Whether the drive is not there yet, but will be. */
function isEarly(data: string): boolean {
  try {
    const told: unknown = JSON.parse(data);
    return typeof told === "object" && told !== null && "yet" in told && told.yet === true;
  } catch {
    return false;
  }
}

/** There is nothing to see yet. */
function wait(words: string): void {
  link.value = "connecting";
  reason.value = words;
}

function down(how: "gone" | "lost", words: string): void {
  if (link.value === "live") history.gap();
  link.value = how;
  reason.value = words;
  back.value = "";
}

function up(): void {
  if (link.value === "live") return;
  const was = link.value;
  link.value = "live";
  reason.value = "";
  if (was === "connecting") return;
  back.value = was === "gone" ? "drive" : "connection";
  clearTimeout(backTimer);
  backTimer = window.setTimeout(() => (back.value = ""), BACK_MS);
  void refresh();
}

/** Asks the drive for something that is shown. Gives what is wrong: nothing while the drive is away, which the banner reports. */
export async function look<T>(ask: () => Promise<T>, take: (answer: T) => void): Promise<string> {
  try {
    take(await ask());
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.status === 0 || AWAY.includes(error.status) ? "" : error.message;
  }
  return "";
}

/** Calls `ask` now and every `ms` while `wanted` says so, the drive is there and the page can be seen. Returns what ends it. */
export function poll(ask: () => Promise<void>, ms: number, wanted: () => boolean): () => void {
  let ended = false;
  let timer = 0;
  const round = async () => {
    if (!document.hidden && wanted() && link.value !== "lost" && link.value !== "gone") await ask();
    if (!ended) timer = window.setTimeout(() => void round(), ms);
  };
  void round();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
