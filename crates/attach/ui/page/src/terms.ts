// The field's terms in plain words. Each is explained where it is first seen, and again wherever it is pressed.

export interface Explanation {
  name: string;
  text: string;
}

export const TERMS = {
  namespace: { name: "Namespace", text: "A range of blocks of the drive that hosts see as a disk of its own. Its number is the NSID." },
  nvmset: { name: "NVM Set", text: "One medium of the drive (flash, memory or a disk), with chips of its own. Namespaces of different sets do not slow each other down on the medium." },
  die: { name: "Die", text: "The part of a flash chip that works on its own: one read, program or erase at a time." },
  superblock: {
    name: "Superblock",
    text: "One block of each die and plane of a set. It is written in order, collected as a whole and erased as a whole. Flash cannot overwrite: new data goes to another superblock, and the old copy becomes stale.",
  },
  valid: { name: "Valid", text: "Data that a namespace still refers to. What is written but no longer valid is stale, and goes with the next erase." },
  collection: {
    name: "Garbage collection",
    text: "The drive chooses a superblock with little valid data, copies that data elsewhere and erases the superblock. That gives room for new writes, and costs extra writes.",
  },
  amplification: {
    name: "Write amplification",
    text: "Bytes that the drive writes to its flash for each byte that hosts write. 1 is ideal. Garbage collection makes it more, which costs speed and wears the flash.",
  },
  wear: { name: "Wear", text: "Flash endures a limited number of erases. The drive spreads them, so that no superblock wears out long before the others." },
  spare: { name: "Spare", text: "What is left of the blocks that replace bad ones. At 0 % the set can only be read." },
  virtualTime: {
    name: "Virtual time",
    text: "The time of a simulated drive and of its load. It passes as fast as somebody wants it to, or as the machine can simulate. What comes of the run is the same at every speed.",
  },
  throughput: { name: "Throughput", text: "Bytes that hosts read and write per second." },
  iops: { name: "IOPS", text: "Commands that the drive completes per second, whatever their size." },
  latency: { name: "Latency", text: "Time from a command's arrival at the drive to its completion, in the drive's own time. The host's part of the way is not in it." },
  percentile: { name: "p50, p99, p99.9", text: "Half of the commands, 99 of 100, or 999 of 1,000, took no longer than this. The high ones are what users feel." },
  quota: { name: "Quota", text: "Limits of one namespace. Commands beyond a limit wait in the drive; none fails." },
  burst: { name: "Burst", text: "After a pause, what the limits give in this time may pass at once." },
  weight: { name: "Weight", text: "The share of a namespace when several of one set want more than it can do. The default is 100." },
  attach: { name: "Attach", text: "Let the controllers of hosts use a namespace. A namespace that is not attached keeps its data and cannot be read or written." },
  lba: { name: "Logical block", text: "The smallest piece that hosts read and write, 512 or 4,096 bytes." },
  zoned: { name: "Zoned namespace", text: "A namespace that is written in order, zone by zone. A zone is reset as a whole, so the drive has no garbage to collect." },
  zone: { name: "Zone", text: "A part of a zoned namespace that can only be written at its write pointer, and is emptied by a reset." },
  writePointer: { name: "Write pointer", text: "Where the next write to a zone must begin." },
  fault: { name: "Fault", text: "A failure that the drive makes on purpose, so that software above it can show what it does." },
  powerCut: { name: "Power cut", text: "The drive loses power at once, as if somebody pulled the plug. With capacitors the write buffer survives." },
} satisfies Record<string, Explanation>;

export type TermId = keyof typeof TERMS;
