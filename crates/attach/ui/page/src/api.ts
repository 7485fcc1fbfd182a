// What the server says and takes. Sizes are in bytes and times in nanoseconds, unless the name says otherwise.

export interface Drive {
  model: string;
  serial: string;
  firmware: string;
  nqn: string;
  address: string;
}

/** True where the drive allows something, else the reason why not, or false where none is known. */
export type Allowed = boolean | string;

export interface Allows {
  namespaces: Allowed;
  quotas: Allowed;
  power_cut: Allowed;
  faults: Allowed;
}

export interface FaultKind {
  kind: string;
  /** Whether it may hold for the next so many operations. */
  counted: boolean;
  parameter: null | "die" | "factor";
}

export type Medium = "nand" | "dram" | "pmem" | "disk";

export interface NvmSet {
  id: number;
  medium: Medium;
  capacity: number;
  unallocated: number;
  zones: boolean;
  /** 0 without zones. */
  zone_size: number;
  zone_capacity: number;
  active_zones_left: number;
  dies: number;
  superblocks: number;
  superblock_bytes: number;
  /** Erases that a block endures; null where the medium does not wear. */
  rated_cycles: number | null;
  /** Null where the drive does not tell. */
  endurance_used_percent: number | null;
  spare_percent: number | null;
}

/** Limits: bytes and commands per second, 0 is none. */
export interface Quota {
  read_bandwidth: number;
  write_bandwidth: number;
  read_iops: number;
  write_iops: number;
  /** Microseconds; 0 is the drive's default, 1,000. */
  burst_us: number;
  /** 1 to 1,000; 0 is the drive's default, 100. */
  weight: number;
}

export interface Namespace {
  nsid: number;
  set: number;
  medium: Medium;
  size: number;
  /** What it takes of the set's capacity: of zones what can be written to them, which is less than their size. */
  allocated: number;
  used: number;
  lba_bytes: number;
  metadata_bytes: number;
  zoned: boolean;
  zone_count: number;
  /** To any controller. */
  attached: boolean;
  /** To the controller of the view: without that the view cannot read its zones. */
  attached_here: boolean;
  controllers: number[];
  quota: Quota;
}

export interface Host {
  cntlid: number;
  nqn: string;
  origin: "process" | "unix" | "network";
  /** Whether this is the view itself. */
  view: boolean;
}

/** A run in virtual time. */
export interface Run {
  /** What it runs: the name of its load. */
  load: string;
  /** Virtual seconds for each real one, or as many as the machine can. */
  speed: number | "max";
  paused: boolean;
  /** How it ended; null while it goes. */
  end: null | "complete" | "interrupted" | "failed";
}

export interface State {
  drive: Drive;
  view: { version: string; interval_ms: number; cntlid: number };
  allows: Allows;
  fault_kinds: FaultKind[];
  sets: NvmSet[];
  namespaces: Namespace[];
  hosts: Host[];
  /** Bytes of logical blocks that a new namespace may have. */
  lba_formats: number[];
  /** Null for a drive that is served. */
  run: Run | null;
}

/** The count is since power on. Percentiles are of the commands that ended since the sample before, null if none did. */
export interface Latency {
  count: number;
  p50: number | null;
  p99: number | null;
  p999: number | null;
}

/** Counts are since power on, or since the namespace was created. */
export interface NamespaceSample {
  nsid: number;
  reads: number;
  writes: number;
  read: number;
  written: number;
  media_written: number;
  read_latency: Latency;
  write_latency: Latency;
  /** Time that commands were held back by limits, and for others' shares. */
  throttled_ns: number;
  shared_ns: number;
  in_flight: number;
  queued: number;
}

/** Nanoseconds of reads, programs and erases. */
export type DieTimes = readonly [number, number, number];

export interface DriveSample {
  host_read: number;
  host_written: number;
  /** Over the drive's life: they survive power cuts. */
  lifetime_read: number;
  lifetime_written: number;
  media_written: number;
  /** Over the drive's life, as `collections`. */
  media_erased_blocks: number;
  collections: number;
  temperature_k: number;
  spare_percent: number;
  used_percent: number;
}

/** A fault that is active. */
export interface ActiveFault {
  /** As `tranche fault` names it. */
  kind: string;
  /** NVM Set, or port; 0 for the drive and the host's disk. */
  id: number;
  one_in: number;
  /** A die, a factor, an ANA state. */
  parameter: number;
  /** Operations that it still strikes, 0 until it is cleared; of a port that is down milliseconds; of a power cut operations until it comes. */
  remaining: number;
}

export interface Sample {
  /** Since the view began; of a run since its load began, in virtual time. */
  at_ns: number;
  /** Of a run: the share of its load that is done, 0 to 1, or null where it is not known. */
  done?: number | null;
  /** The drive's time since power on; less than before: counts began anew. */
  power_on_ns: number;
  /** Of a run: for how long each die was asked to read, program and erase since power on, by the set's number. */
  dies?: Record<string, readonly DieTimes[]>;
  drive: DriveSample;
  faults: ActiveFault[];
  namespaces: NamespaceSample[];
}

export type SuperblockState = "free" | "open" | "closed" | "collecting" | "erasing" | "zone" | "bad";

export interface Superblock {
  state: SuperblockState;
  valid_permille: number;
  written_permille: number;
  erases: number;
  zone_state?: string;
  nsid?: number;
  zone?: number;
  /** How many zones lie in it. */
  zones?: number;
}

export interface FlashMap {
  set: number;
  medium: "nand";
  dies: number;
  page_bytes: number;
  superblock_pages: number;
  superblocks: Superblock[];
  /** Rated cycles; null where there is no limit. */
  erase_limit: number | null;
}

export interface CoarseMap {
  set: number;
  medium: Medium;
  capacity: number;
  used: number;
}

export type SetMap = FlashMap | CoarseMap;

/** Places in bytes from the namespace's begin. */
export interface Zone {
  start: number;
  state: "empty" | "implicitly opened" | "explicitly opened" | "closed" | "read only" | "full" | "offline";
  /** Null where it means nothing. */
  write_pointer: number | null;
  capacity: number;
}

export interface Zones {
  nsid: number;
  zone_bytes: number;
  max_open: number;
  max_active: number;
  zones: Zone[];
}

export type ZoneAction = "open" | "close" | "finish" | "reset";

export interface Study {
  name: string;
  title: string;
  url: string;
}

export interface NewNamespace {
  set: number;
  size: number;
  lba_bytes: number;
  zoned: boolean;
  attach: boolean;
}

/** What to break. */
export interface FaultOrder {
  /** 0 is all sets. */
  set: number;
  kind: string;
  count?: number;
  one_in?: number;
  parameter?: number;
}

/** An answer that is no success, in the server's words; status 0 where there was no answer. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

// Longer than any command of a working drive takes.
const TIMEOUT_MS = 30_000;

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method, signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" };
  if (method !== "GET") {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body ?? {});
  }
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new ApiError(late ? "The live view did not answer within 30 s." : "The live view cannot be reached. Check whether tranche is still running.", 0);
  }
  const text = await answer.text();
  let json: unknown = null;
  try {
    json = text === "" ? null : JSON.parse(text);
  } catch {
    // Told below: an answer that is no JSON is no answer of this server.
    json = undefined;
  }
  if (!answer.ok) {
    const told = typeof json === "object" && json !== null && "error" in json ? String(json.error) : "";
    throw new ApiError(told || `${method} ${path} failed with status ${answer.status}`, answer.status);
  }
  if (json === undefined) throw new ApiError(`${method} ${path} gave no JSON. Is something between this page and tranche?`, answer.status);
  return json as T;
}

export const api = {
  state: () => ask<State>("GET", "/api/state"),
  map: (set: number) => ask<SetMap>("GET", `/api/map?set=${set}`),
  zones: (nsid: number) => ask<Zones>("GET", `/api/zones?nsid=${nsid}`),
  studies: () => ask<Study[]>("GET", "/api/studies"),
  create: (namespace: NewNamespace) => ask<{ nsid: number }>("POST", "/api/namespaces", namespace),
  remove: (nsid: number, force: boolean) => ask<unknown>("DELETE", `/api/namespaces/${nsid}${force ? "?force=true" : ""}`),
  attach: (nsid: number) => ask<unknown>("POST", `/api/namespaces/${nsid}/attach`),
  detach: (nsid: number) => ask<unknown>("POST", `/api/namespaces/${nsid}/detach`),
  /** What is not named stays as it is. */
  quota: (nsid: number, quota: Partial<Quota> & { save: boolean }) => ask<Quota>("PUT", `/api/namespaces/${nsid}/quota`, quota),
  zone: (nsid: number, start: number, action: ZoneAction) => ask<unknown>("POST", `/api/zones/${nsid}`, { start, action }),
  powerCut: (options: { off_ms: number; no_plp: boolean }) => ask<unknown>("POST", "/api/power-cut", options),
  fault: (fault: FaultOrder) => ask<unknown>("POST", "/api/faults", fault),
  pace: (pace: { speed?: Run["speed"]; paused?: boolean }) => ask<unknown>("POST", "/api/run", pace),
};
