// Faults in words.

import type { ActiveFault } from "./api";

/** What the kinds do, in words; kinds that are not here show their names. */
export const WORDS: Record<string, [string, string]> = {
  "bit-errors": ["Bit errors", "Reads have bit errors, which the drive corrects."],
  uncorrectable: ["Uncorrectable reads", "Reads cannot be corrected: hosts receive media errors."],
  "program-failure": ["Program failures", "Programs fail. The drive retires the block and writes elsewhere."],
  "erase-failure": ["Erase failures", "Erases fail. The drive retires the block."],
  "stuck-die": ["Stuck die", "A die fails every operation."],
  "lost-write": ["Lost writes", "Programs report success and write nothing."],
  "misdirected-write": ["Misdirected writes", "Programs write to another place."],
  "weak-page": ["Weak pages", "Written data cannot be read until it is written again."],
  slow: ["Slow operations", "Operations take a multiple of their time."],
  "host-disk-full": ["Host's disk full", ""],
  "host-disk-error": ["Host's disk fails", ""],
  "port-ana": ["ANA state", ""],
  "port-down": ["Port down", ""],
  "power-cut": ["Planned power cut", ""],
};

/** The name of a kind. */
export function nameOf(kind: string): string {
  return WORDS[kind]?.[0] ?? kind;
}

/** A fault in words: what, where, how often, until when. */
export function describe({ kind, id, one_in, parameter, remaining }: ActiveFault): string {
  const port = kind === "port-ana" || kind === "port-down";
  const words = [nameOf(kind)];
  if (id > 0) words.push(port ? `port ${id}` : `set ${id}`);
  if (kind === "stuck-die") words.push(`die ${parameter}`);
  if (kind === "slow") words.push(`${parameter} times as long`);
  if (kind === "port-ana") words.push(`state ${parameter}`);
  if (one_in > 1) words.push(`one operation in ${one_in.toLocaleString("en")}`);
  if (remaining > 0) {
    const left = remaining.toLocaleString("en");
    words.push(kind === "port-down" ? `back in ${left} ms` : kind === "power-cut" ? `after ${left} operations` : `the next ${left} operations`);
  }
  return words.join(", ");
}
