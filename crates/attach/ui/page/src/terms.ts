// The field's terms in plain words. Pressing a term shows its explanation; "Explain terms" shows all of them in place.

export interface Explanation {
  name: string;
  text: string;
}

export const TERMS = {
  namespace: { name: "Namespace", text: "A range of blocks of the drive that hosts see as a disk of its own. Its number is the NSID." },
  nvmset: { name: "NVM Set", text: "One medium of the drive: flash, memory or a disk. Namespaces of different sets do not slow each other down on the medium." },
  die: { name: "Die", text: "The part of a flash chip that works independently: one read, program or erase at a time." },
  superblock: {
    name: "Superblock",
    text: "One block of each die and plane of a set. It is written in order and erased as a whole. Flash cannot be overwritten: new data goes to another superblock, and the old copy becomes stale.",
  },
  overProvisioning: { name: "Over-provisioning", text: "Flash beyond the capacity of the set. Garbage collection needs it: the more there is, the less the drive has to copy." },
  valid: { name: "Valid", text: "Data that a namespace still refers to. Data that was overwritten or deallocated is stale; the next erase removes it." },
  collection: {
    name: "Garbage collection",
    text: "The drive selects a superblock with little valid data, copies that data elsewhere and erases the superblock. That frees space for new writes, and costs extra writes.",
  },
  amplification: {
    name: "Write amplification",
    text: "Bytes that the drive writes to its flash for each byte that hosts write to it. 1 is ideal. Garbage collection increases it, which costs speed and wears the flash.",
  },
  wear: { name: "Wear", text: "Flash endures a limited number of erases. The drive spreads them, so that no superblock wears out long before the others." },
  spare: { name: "Spare", text: "The share of replacement blocks for bad blocks that is left. At 0 % the set can only be read." },
  virtualTime: {
    name: "Virtual time",
    text: "The time of a simulated drive and of its load. It passes at the speed that you choose, or as fast as the machine can simulate. The results are the same at every speed.",
  },
  throughput: { name: "Throughput", text: "Bytes that hosts read and write per second." },
  iops: { name: "IOPS", text: "Commands that the drive completes per second, whatever their size." },
  latency: { name: "Latency", text: "Time from a command's arrival at the drive to its completion, in the drive's own time, without the host's share." },
  percentile: { name: "p50, p99, p99.9", text: "Half of the commands, 99 of 100, or 999 of 1,000, took no longer than this. Users feel the high percentiles." },
  inFlight: { name: "In flight", text: "Commands that the drive executes now. Commands that wait for a quota or for their share are held back." },
  quota: { name: "Quota", text: "Limits of one namespace. Commands beyond a limit wait in the drive; none fails." },
  burst: { name: "Burst", text: "After a pause, as much as the limits allow in this time may pass at once." },
  weight: { name: "Weight", text: "The share of a namespace when the namespaces of a set together demand more than the set can do. The default is 100." },
  attach: { name: "Attach", text: "An attached namespace can be used by the controllers of hosts. A detached namespace keeps its data, and cannot be read or written." },
  lba: { name: "Logical block", text: "The smallest unit that hosts read and write: 512 or 4,096 bytes." },
  zoned: { name: "Zoned namespace", text: "A namespace that is written in order, zone by zone. A zone is reset as a whole, so it needs no garbage collection." },
  zone: { name: "Zone", text: "A part of a zoned namespace that can only be written at its write pointer, and is emptied by a reset." },
  writePointer: { name: "Write pointer", text: "Where the next write to a zone must start." },
  fault: { name: "Fault", text: "A failure that the drive causes on purpose, to test the software above it." },
  powerCut: { name: "Power cut", text: "The drive loses power at once, as if somebody pulled the plug. With capacitors the write buffer survives." },
} satisfies Record<string, Explanation>;

export type TermId = keyof typeof TERMS;
