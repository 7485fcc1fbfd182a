// What was done and what went wrong, for a person to read.

import { signal } from "@preact/signals";
import { ApiError } from "./api";

export interface Notice {
  id: number;
  kind: "done" | "failed";
  text: string;
}

export const notices = signal<readonly Notice[]>([]);

let next = 1;
/** What was done goes by itself; what failed stays until somebody closes it. */
const DONE_MS = 6000;
/** Older ones make room. */
const SHOWN = 4;

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function done(text: string): void {
  const id = add("done", text);
  setTimeout(() => dismiss(id), DONE_MS);
}

export function failed(text: string): void {
  add("failed", text);
}

function add(kind: Notice["kind"], text: string): number {
  const id = next++;
  // The same error again is no second one.
  const others = notices.value.filter((notice) => notice.text !== text);
  notices.value = [...others, { id, kind, text }].slice(-SHOWN);
  return id;
}

/** Does what somebody asked for and says how it went. Returns whether it went well. */
export async function attempt(what: string, act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed(`${what}: ${error.message}`);
    return false;
  }
  done(what);
  return true;
}
