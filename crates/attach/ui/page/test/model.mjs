// A small drive for the mock server: superblocks with greedy garbage collection, zones, quotas. All of it follows from a seed
// and a number of ticks; no clock has a part in it.

const MIB = 1 << 20;
const GIB = 1 << 30;
/** Time of the drive between two samples. */
export const TICK_NS = 500_000_000;
const UNITS = 96;
const UNIT_BYTES = MIB;
const RATED = 3000;

/** Xorshift: the same numbers everywhere. */
function generator(seed) {
  let state = (seed >>> 0) || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

class Flash {
  constructor(random, superblocks, logicalUnits) {
    this.random = random;
    this.blocks = Array.from({ length: superblocks }, (_, index) => ({ index, state: "free", written: 0, valid: 0, erases: 20 + random(9), owners: [] }));
    for (const at of [37, 410]) if (this.blocks[at]) this.blocks[at].state = "bad";
    this.freeBlocks = this.blocks.filter((block) => block.state === "free");
    this.place = new Int32Array(logicalUnits).fill(-1);
    this.open = { host: null, collection: null };
    this.victim = null;
    this.programmed = 0;
    this.erased = 0;
    this.collections = 0;
  }

  append(unit, stream) {
    let block = this.open[stream];
    if (!block) {
      // The least worn of those that are free.
      block = this.freeBlocks.reduce((least, other) => (other.erases < least.erases ? other : least));
      this.freeBlocks = this.freeBlocks.filter((other) => other !== block);
      block.state = "open";
      this.open[stream] = block;
    }
    const old = this.place[unit];
    if (old >= 0) this.blocks[old].valid -= 1;
    block.owners.push(unit);
    block.written += 1;
    block.valid += 1;
    this.place[unit] = block.index;
    this.programmed += 1;
    if (block.written === UNITS) {
      block.state = "closed";
      this.open[stream] = null;
    }
  }

  write(unit) {
    this.append(unit, "host");
    // Collection keeps pace with the host.
    const low = 12;
    if (this.freeBlocks.length < low || this.victim) this.collect(this.freeBlocks.length < low / 2 ? 8 : 5);
  }

  collect(moves) {
    if (!this.victim) {
      const closed = this.blocks.filter((block) => block.state === "closed");
      if (closed.length === 0) return;
      this.victim = closed.reduce((best, other) => (other.valid < best.valid ? other : best), closed[0]);
      this.victim.state = "collecting";
    }
    const here = this.victim.index;
    for (let moved = 0; moved < moves && this.victim.valid > 0; ) {
      const unit = this.victim.owners.pop();
      if (unit !== undefined && this.place[unit] === here) {
        this.append(unit, "collection");
        moved += 1;
      }
    }
    if (this.victim.valid === 0) {
      Object.assign(this.victim, { state: "free", written: 0, valid: 0, erases: this.victim.erases + 1, owners: [] });
      this.freeBlocks.push(this.victim);
      this.victim = null;
      this.erased += 16;
      this.collections += 1;
    }
  }
}

/** What a namespace takes of its set: zones of 256 MiB have room for 192 MiB. */
const allocated = ({ size, zoned }) => (zoned ? (size * 3) / 4 : size);

const QUOTA = { read_bandwidth: 0, write_bandwidth: 0, read_iops: 0, write_iops: 0, burst_us: 0, weight: 0 };

export class Model {
  constructor(scenario, seed) {
    this.scenario = scenario;
    this.random = generator(seed);
    this.ticks = 0;
    this.gone = false;
    this.allowed = scenario !== "locked";
    this.hostRead = 0;
    this.hostWritten = 0;
    this.namespaces = [];
    this.nextNsid = 1;
    this.flash = new Flash(this.random, 1024, 80_000);
    this.zones = Array.from({ length: 192 }, (_, index) => ({ start: index * 256 * MIB, state: "empty", written: 0 }));
    this.zoned = new Array(192).fill(0).map(() => 3 + this.random(4));
    this.faults = [];
    if (scenario !== "empty") {
      this.create({ set: 1, size: 40 * GIB, lba_bytes: 4096, zoned: false, attach: true });
      this.create({ set: 1, size: 24 * GIB, lba_bytes: 4096, zoned: false, attach: true });
      this.create({ set: 2, size: 6 * GIB, lba_bytes: 512, zoned: false, attach: true });
      if (scenario !== "small") this.create({ set: 3, size: 48 * GIB, lba_bytes: 4096, zoned: true, attach: true });
      this.create({ set: 4, size: 400 * GIB, lba_bytes: 512, zoned: false, attach: false });
      // A drive that was written before: half of it, then some of that again.
      const used = this.usedUnits();
      for (let unit = 0; unit < used; unit += 1) this.flash.write(unit);
      for (let again = 0; again < 120_000; again += 1) this.flash.write(this.random(8) < 6 ? this.random(used >> 2) : this.random(used));
      for (let index = 0; index < 70; index += 1) this.zones[index] = { ...this.zones[index], state: "full", written: 192 };
      this.zones[70].state = "explicitly opened";
      this.zones[70].written = 120;
      this.zones[71].state = "closed";
      this.zones[71].written = 60;
      this.zones[188].state = "read only";
      this.zones[188].written = 40;
      this.zones[191].state = "offline";
      this.current = 72;
    }
  }

  usedUnits() {
    return 78_000;
  }

  create({ set, size, lba_bytes, zoned, attach }) {
    const nsid = this.nextNsid++;
    const controllers = attach ? [1, 2] : [];
    this.namespaces.push({
      nsid, set, size, lba_bytes, zoned, controllers, quota: { ...QUOTA },
      count: { reads: 0, writes: 0, read: 0, written: 0, media: 0, throttled: 0 }, latency: {}, in_flight: 0, queued: 0,
    });
    return { nsid, controllers };
  }

  sets() {
    const base = { zone_size: 0, zone_capacity: 0, active_zones_left: 0, dies: 0, superblocks: 0, superblock_bytes: 0, rated_cycles: null, endurance_used_percent: 0, spare_percent: 100, zones: false };
    const flash = { superblock_bytes: UNITS * UNIT_BYTES, rated_cycles: RATED };
    const all = [
      { ...base, ...flash, id: 1, medium: "nand", capacity: 80 * GIB, dies: 16, superblocks: 1024, endurance_used_percent: 1, spare_percent: 98 },
      { ...base, id: 2, medium: "dram", capacity: 8 * GIB },
      { ...base, ...flash, id: 3, medium: "nand", capacity: 36 * GIB, superblock_bytes: 192 * MIB, dies: 8, superblocks: 192, zones: true, zone_size: 256 * MIB, zone_capacity: 192 * MIB, active_zones_left: 11 },
      { ...base, id: 4, medium: "disk", capacity: 900 * GIB },
    ];
    for (const set of all) set.unallocated = set.capacity - this.namespaces.filter((namespace) => namespace.set === set.id).reduce((sum, namespace) => sum + allocated(namespace), 0);
    return all;
  }

  state() {
    const sets = this.sets();
    return {
      drive: { model: "Tranche example", serial: "TR0001", firmware: "1.0", nqn: "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001", address: "127.0.0.1:4420" },
      view: { version: "1.0.0", interval_ms: 500, cntlid: 1 },
      allows: { namespaces: true, quotas: true, power_cut: this.allowed, faults: this.allowed },
      fault_kinds: [
        { kind: "clear", counted: false, parameter: null },
        { kind: "bit-errors", counted: false, parameter: null },
        { kind: "uncorrectable", counted: true, parameter: null },
        { kind: "stuck-die", counted: false, parameter: "die" },
        { kind: "slow", counted: false, parameter: "factor" },
      ],
      sets,
      namespaces: this.namespaces.map((namespace) => ({
        nsid: namespace.nsid, set: namespace.set, medium: sets.find((set) => set.id === namespace.set).medium, size: namespace.size, allocated: allocated(namespace),
        used: this.scenario === "empty" ? 0 : Math.round(namespace.size * [0.96, 0.93, 0.5, 0.38, 0.02][namespace.nsid - 1] || 0),
        lba_bytes: namespace.lba_bytes, metadata_bytes: 0, zoned: namespace.zoned, zone_count: namespace.zoned ? 192 : 0,
        attached: namespace.controllers.length > 0, attached_here: namespace.controllers.includes(1), controllers: namespace.controllers, quota: namespace.quota,
      })),
      hosts: [
        { cntlid: 1, nqn: "nqn.view", origin: "process", view: true },
        { cntlid: 2, nqn: "nqn.host", origin: "network", view: false },
      ],
      lba_formats: [512, 4096],
      run: null,
    };
  }

  /** What one namespace asks of the drive in a tick: bytes read and written, size of a request, and its latencies. */
  demand(namespace) {
    if (this.scenario === "empty" || this.scenario === "idle" || namespace.controllers.length === 0) return null;
    const wave = 1 + 0.22 * Math.sin(this.ticks / 17 + namespace.nsid) + (this.random(100) - 50) / 600;
    switch (namespace.nsid) {
      case 1: return { read: 0.7e9 * wave, written: 0.22e9 * wave, size: 8192, fast: [86e3, 210e3, 900e3], slow: [18e3, 120e3, 1.4e6] };
      case 2: return { read: 0.12e9 * wave, written: 0.34e9 * wave, size: 32768, fast: [110e3, 380e3, 1.6e6], slow: [30e3, 420e3, 3.1e6] };
      case 3: return { read: 0.05e9 * wave, written: 0.52e9 * wave, size: 16384, fast: [9e3, 13e3, 21e3], slow: [9e3, 14e3, 24e3] };
      case 4: return { read: 0.08e9 * wave, written: 0.16e9 * wave, size: 131072, fast: [140e3, 420e3, 800e3], slow: [60e3, 190e3, 400e3] };
      default: return null;
    }
  }

  tick() {
    this.ticks += 1;
    const seconds = TICK_NS / 1e9;
    for (const namespace of this.namespaces) {
      const wanted = this.demand(namespace);
      namespace.latency = {};
      namespace.in_flight = namespace.queued = 0;
      if (!wanted) continue;
      const { quota, count } = namespace;
      const limit = (rate, bandwidth, iops) => Math.min(rate, bandwidth || Infinity, (iops || Infinity) * wanted.size);
      const read = limit(wanted.read, quota.read_bandwidth, quota.read_iops) * seconds;
      const written = limit(wanted.written, quota.write_bandwidth, quota.write_iops) * seconds;
      const held = written < wanted.written * seconds * 0.99 || read < wanted.read * seconds * 0.99;
      namespace.in_flight = 4 + this.random(12);
      namespace.queued = held ? 16 + this.random(8) : 0;
      count.throttled += held ? TICK_NS * 4 : 0;
      count.read += Math.round(read);
      count.written += Math.round(written);
      count.reads += Math.round(read / wanted.size);
      count.writes += Math.round(written / wanted.size);
      this.hostRead += read;
      this.hostWritten += written;
      const jitter = () => 0.85 + this.random(1000) / 3000;
      const latency = (times, times_held) => Object.fromEntries(["p50", "p99", "p999"].map((name, index) => [name, Math.round(times[index] * jitter() * times_held)]));
      namespace.latency = { read: latency(wanted.fast, held ? 3 : 1), write: latency(wanted.slow, held ? 40 : 1) };
      const before = this.flash.programmed;
      if (namespace.set === 1) {
        const used = this.usedUnits();
        const base = namespace.nsid === 1 ? 0 : used >> 1;
        for (let unit = 0; unit < written / UNIT_BYTES; unit += 1) this.flash.write(base + (this.random(10) < 7 ? this.random(used >> 4) : this.random(used >> 1)));
        count.media += (this.flash.programmed - before) * UNIT_BYTES;
      } else {
        count.media += written;
      }
      if (namespace.zoned) this.fill(Math.round(written / MIB));
    }
  }

  fill(mib) {
    for (let left = mib; left > 0; ) {
      const zone = this.zones[this.current % 188];
      if (zone.state === "full") {
        Object.assign(zone, { state: "empty", written: 0 });
        this.zoned[this.current % 188] += 1;
      }
      zone.state = "implicitly opened";
      const part = Math.min(left, 192 - zone.written);
      zone.written += part;
      left -= part;
      if (zone.written === 192) {
        zone.state = "full";
        this.current += 1;
      }
    }
  }

  sample() {
    const media = this.flash.programmed * UNIT_BYTES + this.namespaces.filter((namespace) => namespace.set !== 1).reduce((sum, namespace) => sum + namespace.count.media, 0);
    const before = (120_000 + this.usedUnits()) * UNIT_BYTES;
    return {
      at_ns: this.ticks * TICK_NS,
      power_on_ns: this.ticks * TICK_NS,
      drive: {
        lifetime_read: Math.round(this.hostRead), lifetime_written: Math.round(this.hostWritten) + (this.flash.programmed > 0 ? before : 0),
        host_read: Math.round(this.hostRead), host_written: Math.round(this.hostWritten) + (this.flash.programmed > 0 ? before : 0), media_written: Math.round(media), media_erased_blocks: this.flash.erased,
        collections: this.flash.collections, temperature_k: 313, spare_percent: 98, used_percent: this.scenario === "empty" ? 0 : 1,
      },
      faults: [],
      namespaces: this.namespaces.map(({ nsid, count, latency, in_flight, queued }) => ({
        nsid, reads: count.reads, writes: count.writes, read: count.read, written: count.written, media_written: Math.round(count.media),
        read_latency: { count: count.reads, p50: null, p99: null, p999: null, ...latency.read },
        write_latency: { count: count.writes, p50: null, p99: null, p999: null, ...latency.write },
        throttled_ns: count.throttled, shared_ns: 0, in_flight, queued,
      })),
    };
  }

  map(id) {
    const set = this.sets().find((other) => other.id === id);
    if (!set) return null;
    if (id === 1) {
      const permille = (units) => Math.round((1000 * units) / UNITS);
      const superblocks = this.flash.blocks.map(({ state, valid, written, erases }) => ({ state, valid_permille: permille(valid), written_permille: permille(written), erases }));
      return { set: 1, medium: "nand", dies: 16, page_bytes: 4096, superblock_pages: (UNITS * UNIT_BYTES) / 4096, superblocks, erase_limit: RATED };
    }
    if (id === 3) {
      const nsid = this.namespaces.find((namespace) => namespace.zoned)?.nsid;
      const superblocks = this.zones.map((zone, index) => {
        const permille = Math.round((1000 * zone.written) / 192);
        if (nsid === undefined || zone.state === "empty") return { state: "free", valid_permille: 0, written_permille: 0, erases: this.zoned[index] };
        if (zone.state === "offline") return { state: "bad", valid_permille: 0, written_permille: 0, erases: this.zoned[index] };
        return { state: "zone", valid_permille: permille, written_permille: permille, erases: this.zoned[index], zone_state: zone.state, nsid, zone: index, zones: 1 };
      });
      return { set: 3, medium: "nand", dies: 8, page_bytes: 4096, superblock_pages: 49152, superblocks, erase_limit: RATED };
    }
    const used = this.namespaces.filter((namespace) => namespace.set === id).reduce((sum, namespace) => sum + namespace.size / 2, 0);
    return { set: id, medium: set.medium, capacity: set.capacity, used };
  }

  zoneList(nsid) {
    const zones = this.zones.map(({ start, state, written }) => ({
      start, state, capacity: 192 * MIB, write_pointer: ["full", "read only", "offline"].includes(state) ? null : start + written * MIB,
    }));
    return { nsid, zone_bytes: 256 * MIB, max_open: 14, max_active: 14, zones };
  }

  zone(start, action) {
    const zone = this.zones.find((other) => other.start === start);
    if (!zone) return "There is no such zone.";
    if (action === "reset") Object.assign(zone, { state: "empty", written: 0 });
    if (action === "finish") Object.assign(zone, { state: "full", written: 192 });
    if (action === "open") zone.state = "explicitly opened";
    if (action === "close") zone.state = zone.written > 0 ? "closed" : "empty";
    return null;
  }
}
