// Logarithmic sliders of limits. The rightmost place means "no limit", which the drive calls 0.

/** Places of a slider: 0 to STEPS - 1 are limits, STEPS is none. */
export const STEPS = 100;

export interface Range {
  /** The limit at the left end. */
  least: number;
  /** The limit one place before the right end. */
  most: number;
}

/** The limit at a place, rounded to a twentieth of its power of ten; 0 at the right end. */
export function limitAt(place: number, { least, most }: Range): number {
  if (place >= STEPS) return 0;
  const exact = least * Math.pow(most / least, Math.max(0, place) / (STEPS - 1));
  const unit = Math.max(1, Math.pow(10, Math.floor(Math.log10(exact))) / 20);
  return Math.min(most, Math.max(least, Math.round(exact / unit) * unit));
}

/** The place that is closest to a limit. Limits beyond the ends have the places of the ends. */
export function placeOf(limit: number, { least, most }: Range): number {
  if (limit <= 0) return STEPS;
  const place = ((STEPS - 1) * Math.log(limit / least)) / Math.log(most / least);
  return Math.min(STEPS - 1, Math.max(0, Math.round(place)));
}
