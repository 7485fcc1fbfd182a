// What samples say over time. Samples have counts since the start; the rates between two of them are made here.

import type { DieTimes, NamespaceSample, Sample } from "./api";

/** A value, or null where nothing can be said. */
export type Value = number | null;

export interface Rates {
  read: Value[];
  written: Value[];
  reads: Value[];
  writes: Value[];
  read_p50: Value[];
  read_p99: Value[];
  read_p999: Value[];
  write_p50: Value[];
  write_p99: Value[];
  write_p999: Value[];
  /** Time that commands were held back, per time; summed over commands, so it may be above 1. */
  held: Value[];
}

/** The shares of its time that a die read, programmed and erased, 0 to 1 together. */
export interface DieShares {
  read: number;
  program: number;
  erase: number;
}

/** Work counts when a die is asked for it. What lies ahead of the end of the time makes the sum more than all of it. */
export function sharesOf(now: DieTimes, before: DieTimes, span: number): DieShares {
  const [read, program, erase] = [0, 1, 2].map((kind) => Math.max(0, (now[kind] ?? 0) - (before[kind] ?? 0))) as [number, number, number];
  const whole = Math.max(span, read + program + erase, 1);
  return { read: read / whole, program: program / whole, erase: erase / whole };
}

const FIELDS = ["read", "written", "reads", "writes", "read_p50", "read_p99", "read_p999", "write_p50", "write_p99", "write_p999", "held"] as const;

/** Seconds over which write amplification is measured: buffers make the value of one sample jump. */
export const AMPLIFICATION_SECONDS = 5;

export class History {
  /** Seconds since the view began. */
  readonly at: number[] = [];
  readonly namespaces = new Map<number, Rates>();
  readonly amplification: Value[] = [];
  readonly erases: Value[] = [];
  readonly collections: Value[] = [];
  /** What hosts and the drive wrote to flash since the history began; it never decreases. NaN in gaps. */
  private readonly hostWritten: number[] = [];
  private readonly mediaWritten: number[] = [];
  private flashTotals = { host: 0, media: 0 };
  private last: Sample | null = null;
  private beforeLast: Sample | null = null;
  /** Whether there is a gap after the last sample. */
  private broken = false;

  constructor(private readonly capacity: number) {}

  get newest(): Sample | null {
    return this.last;
  }

  get length(): number {
    return this.at.length;
  }

  /** Where the newest sample is; -1 without one. After it there may be a gap. */
  get newestIndex(): number {
    return this.at.length - (this.broken ? 2 : 1);
  }

  /** Takes the next sample. `onFlash` gives the namespaces that count for write amplification. Time that goes back means a new view: the history restarts. */
  push(sample: Sample, onFlash: (nsid: number) => boolean = () => true): void {
    if (this.last?.at_ns === sample.at_ns) return;
    const broken = this.broken;
    this.broken = false;
    if (sample.at_ns / 1e9 <= (this.at.at(-1) ?? -1)) this.clear();
    // Counts begin anew with power on.
    const before = this.last && !broken && sample.power_on_ns > this.last.power_on_ns ? this.last : null;
    const seconds = before ? (sample.at_ns - before.at_ns) / 1e9 : 0;
    this.at.push(sample.at_ns / 1e9);
    for (const now of sample.namespaces) {
      const old = before?.namespaces.find((other) => other.nsid === now.nsid);
      if (!old || !onFlash(now.nsid)) continue;
      this.flashTotals.host += Math.max(0, now.written - old.written);
      this.flashTotals.media += Math.max(0, now.media_written - old.media_written);
    }
    this.hostWritten.push(this.flashTotals.host);
    this.mediaWritten.push(this.flashTotals.media);
    this.amplification.push(this.recentAmplification());
    this.erases.push(before ? rise(before.drive.media_erased_blocks, sample.drive.media_erased_blocks, seconds) : null);
    this.collections.push(before ? rise(before.drive.collections, sample.drive.collections, seconds) : null);

    for (const now of sample.namespaces) {
      const rates = this.ratesOf(now.nsid);
      append(rates, before?.namespaces.find((other) => other.nsid === now.nsid), now, seconds);
    }
    for (const [nsid, rates] of this.namespaces) {
      if (sample.namespaces.some((now) => now.nsid === nsid)) continue;
      for (const field of FIELDS) rates[field].push(null);
    }
    this.beforeLast = before;
    this.last = sample;
    if (this.at.length > this.capacity) this.forget(this.at.length - this.capacity);
  }

  /** A gap in all series, so that no line joins what was before with what comes: the drive was gone. */
  gap(): void {
    const at = this.at.at(-1);
    if (at === undefined || this.broken) return;
    this.broken = true;
    this.at.push(at + 1e-6);
    this.hostWritten.push(NaN);
    this.mediaWritten.push(NaN);
    this.amplification.push(null);
    this.erases.push(null);
    this.collections.push(null);
    for (const rates of this.namespaces.values()) for (const field of FIELDS) rates[field].push(null);
  }

  /** What the dies of a set did between the last two samples; null where nothing is known of that. */
  dies(set: number): DieShares[] | null {
    const [now, before] = [this.last, this.beforeLast];
    const [times, earlier] = [now?.dies?.[String(set)], before?.dies?.[String(set)]];
    if (!now || !before || !times || times.length !== earlier?.length) return null;
    const span = now.power_on_ns - before.power_on_ns;
    return times.map((die, index) => sharesOf(die, earlier[index] ?? die, span));
  }

  /** How many seconds the last so many samples took. */
  lasting(samples: number): number {
    const last = this.at.length - 1;
    return last < 0 ? 0 : (this.at[last] ?? 0) - (this.at[Math.max(0, last - samples)] ?? 0);
  }

  /** Where the samples of the last so many seconds begin. */
  since(seconds: number): number {
    const from = (this.at.at(-1) ?? 0) - seconds;
    let index = this.at.length;
    while (index > 0 && (this.at[index - 1] ?? 0) >= from) index -= 1;
    return index;
  }

  private recentAmplification(): Value {
    const end = this.at.length - 1;
    let begin = end;
    while (begin > 0 && (this.at[end] ?? 0) - (this.at[begin] ?? 0) < AMPLIFICATION_SECONDS && !Number.isNaN(this.hostWritten[begin - 1])) begin -= 1;
    const host = (this.hostWritten[end] ?? 0) - (this.hostWritten[begin] ?? 0);
    const media = (this.mediaWritten[end] ?? 0) - (this.mediaWritten[begin] ?? 0);
    return host > 0 ? media / host : null;
  }

  private ratesOf(nsid: number): Rates {
    let rates = this.namespaces.get(nsid);
    if (!rates) {
      const missing = this.at.length - 1;
      rates = Object.fromEntries(FIELDS.map((field) => [field, new Array<Value>(missing).fill(null)])) as unknown as Rates;
      this.namespaces.set(nsid, rates);
    }
    return rates;
  }

  private forget(many: number): void {
    for (const list of [this.at, this.hostWritten, this.mediaWritten, this.amplification, this.erases, this.collections]) list.splice(0, many);
    for (const [nsid, rates] of this.namespaces) {
      for (const field of FIELDS) rates[field].splice(0, many);
      // A namespace that was deleted, and of which nothing is shown any more.
      if (FIELDS.every((field) => rates[field].every((value) => value === null))) this.namespaces.delete(nsid);
    }
  }

  private clear(): void {
    for (const list of [this.at, this.hostWritten, this.mediaWritten, this.amplification, this.erases, this.collections]) list.length = 0;
    this.namespaces.clear();
    this.flashTotals = { host: 0, media: 0 };
    this.last = null;
    this.beforeLast = null;
  }
}

/** The rate of a count. Null where it went back, as after a loss of power. */
function rise(before: number, after: number, seconds: number): Value {
  return seconds > 0 && after >= before ? (after - before) / seconds : null;
}

function append(rates: Rates, before: NamespaceSample | undefined, now: NamespaceSample, seconds: number): void {
  const of = (field: "read" | "written" | "reads" | "writes") => (before ? rise(before[field], now[field], seconds) : null);
  rates.read.push(of("read"));
  rates.written.push(of("written"));
  rates.reads.push(of("reads"));
  rates.writes.push(of("writes"));
  const held = before ? rise(before.throttled_ns + before.shared_ns, now.throttled_ns + now.shared_ns, seconds) : null;
  rates.held.push(held === null ? null : held / 1e9);
  for (const [name, latency] of [
    ["read", now.read_latency],
    ["write", now.write_latency],
  ] as const) {
    rates[`${name}_p50`].push(latency.p50);
    rates[`${name}_p99`].push(latency.p99);
    rates[`${name}_p999`].push(latency.p999);
  }
}
