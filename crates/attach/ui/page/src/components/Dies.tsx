import { useState } from "preact/hooks";
import type { NvmSet } from "../api";
import { history, tick } from "../live";
import type { DieShares } from "../history";
import { permille } from "../units";
import { CellMap, Legend, type Cell } from "./CellMap";
import { Term } from "./Term";

const KINDS = ["read", "program", "erase"] as const;

/** What fills the bar of a die, from below. */
const FILLS = { read: "cell-zone", program: "cell-valid", erase: "cell-collecting" } as const;
const NAMES = { read: "Reads", program: "Programs", erase: "Erases" } as const;

/** The shares in permille, rounded down, and the rest: all four are 1,000. */
function permilles(die: DieShares): { shares: [keyof typeof NAMES, number][]; idle: number } {
  const shares = KINDS.map((kind): [keyof typeof NAMES, number] => [kind, Math.floor(1000 * die[kind])]);
  return { shares, idle: 1000 - shares.reduce((sum, [, share]) => sum + share, 0) };
}

/** A share that stays on one line. */
function percent(share: number): string {
  return permille(share).replace(" ", "\u00a0");
}

function barOf(die: DieShares): Cell {
  return { fill: "cell-free", level: 0, parts: KINDS.map((kind) => ({ fill: FILLS[kind], share: die[kind] })) };
}

function words(die: DieShares | undefined, index: number): string {
  if (!die) return "";
  const { shares, idle } = permilles(die);
  const parts = shares.filter(([, share]) => share > 0).map(([kind, share]) => `${NAMES[kind].toLowerCase()} ${percent(share)}`);
  return [`Die ${index}: busy ${percent(1000 - idle)} of the time`, ...parts].join(", ");
}

/** The mean of all dies. */
function meanOf(dies: readonly DieShares[]): DieShares {
  const mean = (kind: keyof DieShares) => dies.reduce((sum, die) => sum + die[kind], 0) / dies.length;
  return { read: mean("read"), program: mean("program"), erase: mean("erase") };
}

/** What the dies of a set did between the last two samples. Nothing where that is not known. */
export function Dies({ set }: { set: NvmSet }) {
  void tick.value;
  const [selected, setSelected] = useState(0);
  const dies = history.dies(set.id);
  if (!dies || dies.length === 0) return null;
  const chosen = Math.min(selected, dies.length - 1);
  const { shares, idle } = permilles(meanOf(dies));
  return (
    <div class="flash dies">
      <p class="muted">
        Busy time of each <Term id="die">die</Term> between the last two samples. A full bar is 100{"\u00a0"}%.
      </p>
      <CellMap shape="bars" cells={dies.map(barOf)} label={`Dies of set ${set.id}`} describe={(index) => words(dies[index], index)} selected={chosen} onSelect={setSelected} />
      <Legend
        entries={[
          ...shares.map(([kind, share]) => ({ cell: { fill: FILLS[kind], level: 1 }, name: NAMES[kind], count: percent(share) })),
          { cell: { fill: "cell-free", level: 0 }, name: "Idle", count: percent(idle) },
        ]}
      />
      <p class="num chosen">{words(dies[chosen], chosen)}</p>
    </div>
  );
}
