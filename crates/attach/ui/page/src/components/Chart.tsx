import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { history, link, shownSeconds, state, tick } from "../live";
import { colour, palette } from "../prefs";
import { time } from "../units";
import type { Value } from "../history";
import type { TermId } from "../terms";
import { Term } from "./Term";

export interface Line {
  /** Names the line among all of the chart. */
  key: string;
  label: string;
  /** The label where there is little room. */
  short: string;
  /** A colour of the style sheet. */
  colour: string;
  dash: readonly number[];
  /** One value for each sample of the history. */
  values: readonly Value[];
}

interface Props {
  title: TermId;
  /** Said behind the title. */
  note?: string;
  lines: readonly Line[];
  format: (value: number) => string;
  /** Powers of ten, for what differs by orders. */
  logarithmic?: boolean;
  /** The least upper end of the scale, so that noise does not look like a load. */
  floor: number;
  /** A value worth a line of its own across the chart. */
  reference?: number;
  empty: string;
}

const HEIGHT = 168;

/** Values over the last seconds. The newest is at the right end; the axis says how long ago. */
export function Chart({ title, note, lines, format, logarithmic = false, floor, reference, empty }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [width, setWidth] = useState(0);
  const [cursor, setCursor] = useState<number | null>(null);
  const redraw = tick.value;
  const colours = palette.value;
  const seconds = shownSeconds();

  useLayoutEffect(() => {
    const frame = box.current;
    if (!frame) return;
    const watch = new ResizeObserver(() => setWidth(frame.clientWidth));
    watch.observe(frame);
    return () => watch.disconnect();
  }, []);

  // Another set of lines is another chart: uPlot knows them from the start.
  const shape = lines.map((line) => `${line.key} ${line.colour} ${line.dash.join("-")}`).join("|");
  useEffect(() => {
    const frame = box.current;
    if (!frame || width === 0) return;
    const made = new uPlot(options({ lines, format, logarithmic, floor, reference, width, setCursor }), dataOf(lines), frame);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [shape, width === 0, colours, logarithmic]);

  useEffect(() => {
    if (width > 0) plot.current?.setSize({ width, height: HEIGHT });
  }, [width]);

  useEffect(() => {
    if (!document.hidden) plot.current?.setData(dataOf(lines));
  }, [redraw, seconds, shape]);

  const last = history.newestIndex;
  const first = history.since(seconds);
  const shown = cursor === null ? last : Math.min(last, first + cursor);
  const ago = shown >= 0 ? (history.at[last] ?? 0) - (history.at[shown] ?? 0) : 0;
  const value = (line: Line) => line.values[shown] ?? null;
  const nothing = lines.every((line) => line.values.slice(first).every((entry) => entry === null));

  const leave = () => {
    plot.current?.setCursor({ left: -10, top: -10 });
    setCursor(null);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape" || event.key === "End") {
      event.preventDefault();
      return leave();
    }
    if (step === undefined || last < first) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last - first, (cursor ?? last - first) + step));
    setCursor(next);
    const at = history.at[first + next];
    if (plot.current && at !== undefined) plot.current.setCursor({ left: plot.current.valToPos(at, "x"), top: 10 });
  };

  const spoken = lines.map((line) => `${line.label}: ${words(value(line), format)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <h3>
          <Term id={title} />
        </h3>
        {note && <span class="muted">{note}</span>}
        <span class="when muted">{cursor !== null ? `${age(ago)} ago` : link.value === "live" ? "now" : "last"}</span>
      </figcaption>
      <div class="plot-room">
        <div
          ref={box}
          class="plot"
          tabIndex={0}
          role="slider"
          aria-roledescription="chart"
          aria-label={`${titleWords(title)} over the last ${age(seconds)}. Left and right arrow choose a time.`}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, last - first)}
          aria-valuenow={Math.max(0, shown - first)}
          aria-valuetext={`${cursor === null ? "now" : `${age(ago)} ago`}. ${spoken || empty}`}
          onKeyDown={onKey}
          onBlur={leave}
        />
        {nothing && (
          <p class="plot-empty">
            <span>{empty}</span>
          </p>
        )}
      </div>
      <ul class="values">
        {lines.map((line) => (
          <li key={line.key}>
            <Stroke colour={line.colour} dash={line.dash} />
            <span>{line.short}</span>
            <span class="num">{words(value(line), format)}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function titleWords(id: TermId): string {
  return { throughput: "Throughput", iops: "Commands per second", latency: "Latency", amplification: "Write amplification" }[id as string] ?? id;
}

function words(value: Value, format: (value: number) => string): string {
  return value === null ? "–" : format(value);
}

/** Seconds as people say them. */
export function age(seconds: number): string {
  // Virtual time may pass slowly.
  if (state.value?.run && seconds > 0 && seconds < 120) return time(seconds * 1e9);
  if (seconds >= 7200) return `${Math.round(seconds / 3600)} h`;
  return seconds >= 120 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`;
}

/** A piece of a line as the chart draws it. */
export function Stroke({ colour: name, dash }: { colour: string; dash: readonly number[] }) {
  return (
    <svg class={`stroke stroke-${name}`} viewBox="0 0 26 8" aria-hidden="true">
      <line x1="1" y1="4" x2="25" y2="4" stroke-dasharray={dash.join(" ")} />
    </svg>
  );
}

function dataOf(lines: readonly Line[]): uPlot.AlignedData {
  const first = history.since(shownSeconds());
  return [history.at.slice(first), ...lines.map((line) => line.values.slice(first))] as uPlot.AlignedData;
}

interface Look {
  lines: readonly Line[];
  format: (value: number) => string;
  logarithmic: boolean;
  floor: number;
  reference: number | undefined;
  width: number;
  setCursor: (index: number | null) => void;
}

function options({ lines, format, logarithmic, floor, reference, width, setCursor }: Look): uPlot.Options {
  const now = () => history.at.at(-1) ?? 0;
  const ink = colour("muted");
  const grid = { stroke: colour("grid"), width: 1 };
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: HEIGHT,
    padding: [12, 16, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "tranche" },
      drag: { x: false, y: false },
      points: { size: 6 },
      y: false,
    },
    scales: {
      x: { time: false, range: () => [now() - shownSeconds(), now()] },
      y: logarithmic
        ? { distr: 3, range: (_, least, most) => decades(least, most, floor) }
        : { range: (_, __, most) => [0, Math.max(floor, (most ?? 0) * 1.08)] },
    },
    axes: [
      {
        stroke: ink,
        grid: { show: false },
        ticks: { show: false },
        font,
        size: 24,
        splits: (self) => ages(self, now()),
        values: (_, splits) => splits.map((at) => (now() - at < shownSeconds() / 1000 ? "now" : `−${age(now() - at)}`)),
      },
      {
        stroke: ink,
        grid,
        ticks: { show: false },
        font,
        size: 74,
        space: 34,
        ...(logarithmic ? { splits: (_: uPlot, __: number, least: number, most: number) => powers(least, most) } : {}),
        values: (_, splits) => splits.map((value) => (value === null ? null : format(value))),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        stroke: colour(line.colour),
        width: 1.75,
        dash: [...line.dash],
        points: { show: false },
        spanGaps: false,
        ...(lines.length === 1 ? { fill: faint(colour(line.colour)) } : {}),
      })),
    ],
    hooks: {
      setCursor: [(self: uPlot) => setCursor(self.cursor.left !== undefined && self.cursor.left !== null && self.cursor.left >= 0 ? (self.cursor.idx ?? null) : null)],
      drawClear: reference === undefined ? [] : [(self: uPlot) => across(self, reference)],
    },
  };
}

function faint(rgb: string): string {
  return rgb.replace("rgb(", "rgba(").replace(")", ", 0.10)");
}

function decades(least: number | null, most: number | null, floor: number): [number, number] {
  const low = Math.pow(10, Math.floor(Math.log10(Math.max(1, least ?? floor))));
  const high = Math.pow(10, Math.ceil(Math.log10(Math.max(floor, most ?? floor)) + 1e-9));
  return [Math.min(low, high / 10), high];
}

/** Powers of ten in a range. */
function powers(least: number, most: number): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(least) - 1e-9); power <= Math.log10(most) + 1e-9; power += 1) found.push(Math.pow(10, power));
  return found;
}

/** Round ages for the axis, as many as there is room for. */
function ages(self: uPlot, now: number): number[] {
  const room = Math.max(2, Math.floor(self.width / 90));
  const seconds = shownSeconds();
  const step = state.value?.run ? decimal(seconds / room) : ([5, 10, 15, 30, 60, 120, 180, 300].find((length) => seconds / length <= room) ?? 300);
  const found: number[] = [];
  for (let many = Math.floor(seconds / step); many >= 0; many -= 1) found.push(now - many * step);
  return found;
}

/** The least of 1, 2 and 5 times a power of ten that is no less. */
function decimal(least: number): number {
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  return power * ([1, 2, 5].find((factor) => factor * power >= least) ?? 10);
}

function across(self: uPlot, value: number): void {
  const y = self.valToPos(value, "y", true);
  const { left, width, top, height } = self.bbox;
  if (y < top || y > top + height) return;
  self.ctx.save();
  self.ctx.strokeStyle = colour("muted");
  self.ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  self.ctx.beginPath();
  self.ctx.moveTo(left, y);
  self.ctx.lineTo(left + width, y);
  self.ctx.stroke();
  self.ctx.restore();
}
