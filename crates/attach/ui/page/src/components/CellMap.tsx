import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { colour, palette } from "../prefs";

export interface Cell {
  /** The name of a colour of the style sheet: what is in the cell. */
  fill: string;
  /** How much of the cell is filled with it, 0 to 1. */
  level: number;
  /** What is filled above that, up to `upper`, and its colour. */
  upper?: number;
  upperFill?: string;
  /** A sign that tells the state without colour. */
  sign?: "cross" | "hatch" | "frame" | "dot" | "bar";
  /** Of a bar: its parts from below, each a share of its height. They replace `level` and `upper`. */
  parts?: readonly { fill: string; share: number }[];
}

interface Props {
  cells: readonly Cell[];
  /** What the map is, for those who do not see it. */
  label: string;
  /** A cell in one line of words. */
  describe: (index: number) => string;
  selected: number;
  onSelect: (index: number) => void;
  /** Cells are squares, or bars with the number of the cell below. */
  shape?: "cells" | "bars";
}

const HEIGHT = 340;
const LARGEST = 30;
const SMALLEST = 6;
/** A bar: its width with the gap, and its height. */
const BAR = { widest: 56, narrowest: 8, height: 84, label: 16 };
/** The least width of a bar that has room for its number. */
const LABELLED = 22;

interface Grid {
  columns: number;
  /** From one cell to the next. */
  pitch: number;
  rowPitch: number;
  gap: number;
  rows: number;
  /** Room below each cell for its number. */
  label: number;
}

/** Cells as large as they can be so that all of them are in sight. */
export function gridOf(cells: number, width: number, height: number): Grid {
  for (let pitch = LARGEST; pitch >= SMALLEST; pitch -= 1) {
    const columns = Math.max(1, Math.floor(width / pitch));
    const rows = Math.ceil(cells / columns);
    if (rows * pitch <= height || pitch === SMALLEST) return { columns, pitch, rowPitch: pitch, rows, gap: pitch >= 12 ? 2 : 1, label: 0 };
  }
  throw new Error("the smallest pitch always fits");
}

/** Bars side by side in as few rows as possible. */
export function barsOf(bars: number, width: number): Grid {
  const rows = Math.max(1, Math.ceil((bars * BAR.narrowest) / width));
  const columns = Math.max(1, Math.ceil(bars / rows));
  const pitch = Math.max(BAR.narrowest, Math.min(BAR.widest, Math.floor(width / columns)));
  const label = pitch >= LABELLED ? BAR.label : 0;
  const gap = pitch >= LABELLED ? 6 : 2;
  return { columns, pitch, rowPitch: (rows > 1 ? BAR.height / 2 : BAR.height) + label + gap, rows, gap, label };
}

/**
 * Thousands of cells on a canvas. To assistive technology it is a slider: arrow keys choose a cell, whose description is the
 * value's text. So screen readers say it without a table of thousands of rows.
 */
export function CellMap({ cells, label, describe, selected, onSelect, shape = "cells" }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ index: number; x: number; y: number } | null>(null);

  useLayoutEffect(() => {
    const box = frame.current;
    if (!box) return;
    const watch = new ResizeObserver(() => setWidth(box.clientWidth));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);

  const grid = shape === "bars" ? barsOf(cells.length, Math.max(BAR.narrowest, width)) : gridOf(cells.length, Math.max(SMALLEST, width), HEIGHT);
  const current = Math.min(selected, cells.length - 1);
  const colours = palette.value;

  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, cells, grid, current);
  }, [cells, width, current, colours, grid.columns, grid.pitch, grid.rowPitch]);

  const indexAt = (event: PointerEvent | MouseEvent): number | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const column = Math.floor((event.clientX - box.left) / grid.pitch);
    const row = Math.floor((event.clientY - box.top) / grid.rowPitch);
    const index = row * grid.columns + column;
    return column >= 0 && column < grid.columns && index >= 0 && index < cells.length ? index : null;
  };

  const onKey = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: grid.columns,
      ArrowUp: -grid.columns,
      PageDown: 10 * grid.columns,
      PageUp: -10 * grid.columns,
      Home: -cells.length,
      End: cells.length,
    };
    const step = steps[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = current + step;
    const far = Math.abs(step) > 1 && Math.abs(step) < cells.length;
    // A row up or down that is not there changes nothing: the column would be another.
    if (far && Math.abs(step) === grid.columns && (next < 0 || next >= cells.length)) return;
    onSelect(Math.max(0, Math.min(cells.length - 1, next)));
  };

  return (
    <div ref={frame} class="cellmap">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="slider"
        aria-roledescription="map"
        aria-label={`${label}. Arrow keys choose one.`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, cells.length - 1)}
        aria-valuenow={Math.max(0, current)}
        aria-valuetext={cells.length > 0 ? describe(current) : "empty"}
        onKeyDown={onKey}
        onPointerMove={(event) => {
          const index = indexAt(event);
          setHover(index === null ? null : { index, x: event.offsetX, y: event.offsetY });
        }}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => {
          const index = indexAt(event);
          if (index !== null) onSelect(index);
        }}
      />
      {hover && hover.index < cells.length && <Tip text={describe(hover.index)} x={hover.x} y={hover.y} width={width} />}
    </div>
  );
}

function Tip({ text, x, y, width }: { text: string; x: number; y: number; width: number }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = box.current;
    if (!tip) return;
    tip.style.left = `${Math.max(0, Math.min(x + 14, width - tip.offsetWidth))}px`;
    tip.style.top = `${y + 18}px`;
  });
  return (
    <div ref={box} class="tip" aria-hidden="true">
      {text}
    </div>
  );
}

function draw(canvas: HTMLCanvasElement, cells: readonly Cell[], grid: Grid, selected: number): void {
  const ratio = Math.min(3, devicePixelRatio || 1);
  const width = grid.columns * grid.pitch;
  const height = Math.max(1, grid.rows) * grid.rowPitch;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const wide = grid.pitch - grid.gap;
  const high = grid.rowPitch - grid.gap - grid.label;
  for (const [index, cell] of cells.entries()) {
    const x = (index % grid.columns) * grid.pitch;
    const y = Math.floor(index / grid.columns) * grid.rowPitch;
    drawCell(pen, cell, x, y, wide, high);
    if (grid.label === 0) continue;
    pen.fillStyle = colour(index === selected ? "ink" : "muted");
    pen.font = `${index === selected ? "600 " : ""}11px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    pen.fillText(String(index), x + wide / 2, y + high + grid.label);
  }
  if (selected >= 0) {
    const x = (selected % grid.columns) * grid.pitch;
    const y = Math.floor(selected / grid.columns) * grid.rowPitch;
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1.5;
    pen.strokeRect(x + 0.75, y + 0.75, wide - 1.5, high - 1.5);
    pen.strokeStyle = colour("surface");
    pen.lineWidth = 1;
    if (wide >= 10) pen.strokeRect(x + 2, y + 2, wide - 4, high - 4);
  }
}

function drawCell(pen: CanvasRenderingContext2D, cell: Cell, x: number, y: number, wide: number, high: number): void {
  pen.fillStyle = colour("cell-free");
  pen.fillRect(x, y, wide, high);
  const fill = (share: number, name: string, above = 0) => {
    const part = Math.round(high * Math.min(1, share));
    pen.fillStyle = colour(name);
    pen.fillRect(x, y + high - above - part, wide, part);
    return above + part;
  };
  if (cell.parts) {
    let above = 0;
    for (const part of cell.parts) above = fill(part.share, part.fill, above);
    return;
  }
  if (cell.upperFill) fill(cell.upper ?? 0, cell.upperFill);
  // What is there at all can be seen.
  if (cell.level > 0) fill(Math.max(cell.level, 1 / high), cell.fill);
  if (cell.sign) drawSign(pen, cell, x, y, Math.min(wide, high));
}

function drawSign(pen: CanvasRenderingContext2D, cell: Cell, x: number, y: number, size: number): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, size, size);
  pen.clip();
  pen.strokeStyle = colour(cell.fill);
  pen.lineWidth = size >= 10 ? 2 : 1.5;
  pen.beginPath();
  switch (cell.sign) {
    case "cross":
      pen.moveTo(x + 1, y + 1);
      pen.lineTo(x + size - 1, y + size - 1);
      pen.moveTo(x + size - 1, y + 1);
      pen.lineTo(x + 1, y + size - 1);
      break;
    case "hatch":
      pen.strokeStyle = colour("cell-hatch");
      for (let from = -size; from < size; from += size >= 10 ? 5 : 4) {
        pen.moveTo(x + from, y + size);
        pen.lineTo(x + from + size, y);
      }
      break;
    case "frame":
      pen.rect(x + pen.lineWidth / 2, y + pen.lineWidth / 2, size - pen.lineWidth, size - pen.lineWidth);
      break;
    case "dot":
      pen.fillStyle = colour(cell.fill);
      pen.arc(x + size / 2, y + size / 2, Math.max(1, size / 6), 0, 2 * Math.PI);
      pen.fill();
      break;
    case "bar":
      pen.moveTo(x, y + 1);
      pen.lineTo(x + size, y + 1);
      break;
    default:
  }
  pen.stroke();
  pen.restore();
}

/** What the colours and signs mean, with how many there are of each. */
export function Legend({ entries }: { entries: readonly { cell: Cell; name: string; count: number | string }[] }) {
  return (
    <ul class="legend">
      {entries.map(({ cell, name, count }) => (
        <li key={name}>
          <Swatch cell={cell} />
          <span>{name}</span> <span class="num">{count}</span>
        </li>
      ))}
    </ul>
  );
}

function Swatch({ cell }: { cell: Cell }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = palette.value;
  useEffect(() => {
    if (canvas.current) draw(canvas.current, [cell], { columns: 1, pitch: 15, rowPitch: 15, gap: 1, rows: 1, label: 0 }, -1);
  }, [colours]);
  return <canvas ref={canvas} class="swatch" aria-hidden="true" />;
}
