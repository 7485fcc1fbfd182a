// Sizes, rates, times and counts as people read and write them. Sizes are binary (GiB), rates decimal (MB/s), as in the rest of Tranche.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL = ["", "k", "M", "G", "T"];

/** Three significant digits, without an exponent: 1234 -> "1230", 1.234 -> "1.23", 0 -> "0". */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.001) return "< 0.001";
  const places = Math.max(0, 2 - Math.floor(Math.log10(size)));
  const rounded = Number(value.toFixed(Math.min(places, 3)));
  return String(rounded);
}

function scaled(value: number, step: number, names: readonly string[]): [number, string] {
  let place = 0;
  let rest = value;
  // 999.6 would be printed as 1000: the next unit reads better.
  while (Math.abs(rest) >= step * 0.9995 && place < names.length - 1) {
    rest /= step;
    place += 1;
  }
  return [rest, names[place] ?? ""];
}

/** Bytes: "1.5 GiB". */
export function bytes(value: number): string {
  const [rest, unit] = scaled(value, 1024, BINARY);
  return `${digits(rest)} ${unit}`;
}

/** Bytes per second: "120 MB/s". */
export function rate(value: number): string {
  const [rest, prefix] = scaled(value, 1000, DECIMAL);
  return `${digits(rest)} ${prefix}B/s`;
}

/** A count: "12.3 k", "7". */
export function count(value: number): string {
  const [rest, prefix] = scaled(value, 1000, DECIMAL);
  return prefix === "" ? digits(rest) : `${digits(rest)} ${prefix}`;
}

/** A number of things, in full: "1,024". */
export function whole(value: number): string {
  return value.toLocaleString("en");
}

/** Nanoseconds: "85 µs". */
export function time(value: number): string {
  const [rest, unit] = scaled(value, 1000, ["ns", "µs", "ms", "s"]);
  return `${digits(rest)} ${unit}`;
}

/** Permille as percent: 873 -> "87.3 %". */
export function permille(value: number): string {
  return `${digits(value / 10)} %`;
}

/** A size that somebody typed: "8 GiB", "512MB", "4096". Bytes, or null where it is none. */
export function parseSize(text: string): number | null {
  return parse(text, /^(?:([kmgtp])(i?)b?|b)?$/i, true);
}

/** A size that fits into `most`: a power of two of at most 4 GiB, and no less than one `unit`. */
export function exampleSize(most: number, unit: number): string {
  const fits = Math.pow(2, Math.floor(Math.log2(Math.max(1, Math.min(most, 4 * 1024 ** 3)))));
  return bytes(fits % unit === 0 ? fits : unit);
}

/** A rate that somebody typed: "200 MB/s", "1.5GB", "4096". Bytes per second, or null where it is none. */
export function parseRate(text: string): number | null {
  return parse(text, /^(?:([kmgtp])(i?)b?(?:\/s)?|b(?:\/s)?)?$/i, false);
}

/** A count that somebody typed: "5000", "5k", "1.2 M". Null where it is none. */
export function parseCount(text: string): number | null {
  return parse(text, /^([kmgt])?$/i, false);
}

// A bare letter ("8G") is binary for sizes and decimal for rates; with "i" or "B" it is what it says.
function parse(text: string, unit: RegExp, bareIsBinary: boolean): number | null {
  const parts = /^\s*(\d+(?:[_,\s]\d{3})*(?:\.\d+)?|\d*\.\d+)\s*([a-z/]*)\s*$/i.exec(text);
  if (!parts) return null;
  const match = unit.exec(parts[2] ?? "");
  if (!match) return null;
  const number = Number((parts[1] ?? "").replace(/[_,\s]/g, ""));
  const letter = (match[1] ?? "").toLowerCase();
  const power = letter === "" ? 0 : "kmgtp".indexOf(letter) + 1;
  const bare = letter !== "" && (parts[2] ?? "").length === 1;
  const binary = match[2] === "i" || match[2] === "I" || (bare && bareIsBinary);
  const value = Math.round(number * Math.pow(binary ? 1024 : 1000, power));
  return Number.isSafeInteger(value) ? value : null;
}
