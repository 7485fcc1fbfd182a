import { useState } from "preact/hooks";
import type { NvmSet } from "../api";
import { history, tick } from "../live";
import type { DieShares } from "../history";
import { permille } from "../units";
import { CellMap, Legend, type Cell } from "./CellMap";
import { Term } from "./Term";

/** A die is called by what it does most, if that takes more than this share of its time. */
const IDLE = 0.005;

type Work = "idle" | "read" | "program" | "erase";

const CELLS: Record<Work, Cell> = {
  idle: { fill: "cell-free", level: 0 },
  read: { fill: "cell-open", level: 0.6, sign: "dot" },
  program: { fill: "cell-valid", level: 0.6, sign: "bar" },
  erase: { fill: "cell-collecting", level: 0.6, sign: "hatch" },
};

const NAMES: readonly [Work, string][] = [
  ["idle", "Idle"],
  ["read", "Mostly reads"],
  ["program", "Mostly programs"],
  ["erase", "Mostly erases"],
];

function busy(die: DieShares): number {
  return die.read + die.program + die.erase;
}

function workOf(die: DieShares): Work {
  if (busy(die) < IDLE) return "idle";
  if (die.erase >= die.program && die.erase >= die.read) return "erase";
  return die.program >= die.read ? "program" : "read";
}

function cellOf(die: DieShares): Cell {
  const work = workOf(die);
  return work === "idle" ? CELLS.idle : { ...CELLS[work], level: Math.max(0.08, busy(die)) };
}

function words(die: DieShares | undefined, index: number): string {
  if (!die) return "";
  const parts = [`Die ${index}: busy ${permille(1000 * busy(die))} of the time`];
  for (const [name, share] of [["reads", die.read], ["programs", die.program], ["erases", die.erase]] as const) if (share > 0) parts.push(`${name} ${permille(1000 * share)}`);
  return parts.join(", ");
}

/** What the dies of a set did between the last two samples. Nothing where that is not known. */
export function Dies({ set }: { set: NvmSet }) {
  void tick.value;
  const [selected, setSelected] = useState(0);
  const dies = history.dies(set.id);
  if (!dies || dies.length === 0) return null;
  const chosen = Math.min(selected, dies.length - 1);
  const works = dies.map(workOf);
  return (
    <div class="flash dies">
      <p class="muted">
        What the <Term id="die">dies</Term> did since the sample before: the higher, the busier
      </p>
      <CellMap cells={dies.map(cellOf)} label={`Dies of set ${set.id}`} describe={(index) => words(dies[index], index)} selected={chosen} onSelect={setSelected} maxHeight={110} />
      <Legend entries={NAMES.map(([work, name]) => ({ cell: CELLS[work], name, count: works.filter((each) => each === work).length }))} />
      <p class="num chosen">{words(dies[chosen], chosen)}</p>
    </div>
  );
}
