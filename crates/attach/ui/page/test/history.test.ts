import { describe, expect, it } from "vitest";
import type { Sample } from "../src/api";
import { History, sharesOf } from "../src/history";

/** A sample after so many half seconds, with counts of namespace 1 and of the drive. */
function sample(step: number, written: number, options: { media?: number; on?: number; nsids?: number[]; p99?: number | null } = {}): Sample {
  const { media = written, on = step, nsids = [1], p99 = 1000 } = options;
  return {
    at_ns: step * 5e8,
    power_on_ns: on * 5e8,
    drive: { host_read: 0, host_written: written, lifetime_read: 0, lifetime_written: written, media_written: media, media_erased_blocks: 0, collections: 0, temperature_k: 313, spare_percent: 100, used_percent: 0 },
    faults: [],
    namespaces: nsids.map((nsid) => ({
      nsid, reads: 0, writes: step, read: 0, written, media_written: media, throttled_ns: 0, shared_ns: 0, in_flight: 0, queued: 0,
      read_latency: { count: 0, p50: null, p99: null, p999: null },
      write_latency: { count: step, p50: p99, p99, p999: p99 },
    })),
  };
}

describe("History", () => {
  it("makes rates of counts", () => {
    const history = new History(10);
    history.push(sample(1, 1000));
    history.push(sample(2, 3000));
    expect(history.namespaces.get(1)?.written).toEqual([null, 4000]);
    expect(history.namespaces.get(1)?.writes).toEqual([null, 2]);
  });

  it("tells write amplification over the last seconds only", () => {
    const history = new History(100);
    for (let step = 0; step <= 20; step += 1) history.push(sample(step, 100 * step, { media: step < 10 ? 100 * step : 1000 + 300 * (step - 10) }));
    expect(history.amplification.at(-1)).toBeCloseTo(3);
    history.push(sample(40, 2000, { media: 4000 }));
    history.push(sample(60, 2000, { media: 4000 }));
    expect(history.amplification.at(-1)).toBeNull();
  });

  it("counts only what was written to flash", () => {
    const history = new History(100);
    const two = (step: number): Sample => {
      const one = sample(step, 100 * step, { media: 300 * step });
      return { ...one, namespaces: [...one.namespaces, ...one.namespaces.map((each) => ({ ...each, nsid: 2, media_written: each.written }))] };
    };
    for (let step = 1; step <= 4; step += 1) history.push(two(step), (nsid) => nsid === 1);
    expect(history.amplification.at(-1)).toBeCloseTo(3);
  });

  it("joins nothing across a loss of power or a gap", () => {
    const history = new History(100);
    history.push(sample(5, 5000));
    history.push(sample(6, 6000));
    history.push(sample(7, 100, { on: 1 }));
    expect(history.namespaces.get(1)?.written.at(-1)).toBeNull();
    history.push(sample(8, 200, { on: 2 }));
    expect(history.namespaces.get(1)?.written.at(-1)).toBe(200);
    history.gap();
    expect(history.newest?.at_ns).toBe(4e9);
    history.push(sample(20, 9000, { on: 14 }));
    expect(history.namespaces.get(1)?.written.slice(-2)).toEqual([null, null]);
  });

  it("keeps all series equally long when namespaces come and go, and forgets the old", () => {
    const history = new History(3);
    for (let step = 1; step <= 8; step += 1) {
      history.push(sample(step, step, { nsids: step < 3 ? [1] : step < 5 ? [1, 2] : [2] }));
      for (const rates of history.namespaces.values()) for (const values of Object.values(rates)) expect(values).toHaveLength(history.length);
    }
    expect(history.at).toEqual([3, 3.5, 4]);
    expect([...history.namespaces.keys()]).toEqual([2]);
  });

  it("begins anew when the view does", () => {
    const history = new History(10);
    history.push(sample(9, 1));
    history.push(sample(1, 1));
    expect(history.at).toEqual([0.5]);
  });
});

describe("dies", () => {
  const of = (step: number, dies: [number, number, number][]): Sample => ({ ...sample(step, step), dies: { "1": dies } });

  it("are shares of the time between two samples", () => {
    const history = new History(10);
    history.push(of(1, [[0, 0, 0], [5, 5, 5]]));
    expect(history.dies(1)).toBeNull();
    history.push(of(2, [[1e8, 2e8, 0], [5, 5, 5]]));
    expect(history.dies(1)).toEqual([{ read: 0.2, program: 0.4, erase: 0 }, { read: 0, program: 0, erase: 0 }]);
    expect(history.dies(2)).toBeNull();
  });

  it("are busy all of the time at most, however much they were asked for", () => {
    expect(sharesOf([10, 30, 0], [0, 0, 0], 10)).toEqual({ read: 0.25, program: 0.75, erase: 0 });
    expect(sharesOf([0, 0, 0], [9, 9, 9], 10)).toEqual({ read: 0, program: 0, erase: 0 });
  });

  it("say nothing after a gap or a loss of power", () => {
    const history = new History(10);
    history.push(of(1, [[0, 0, 0]]));
    history.gap();
    history.push(of(2, [[9, 0, 0]]));
    expect(history.dies(1)).toBeNull();
  });
});
