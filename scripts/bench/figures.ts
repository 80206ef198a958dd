import { round } from "./statistics.ts";

/** One measured figure: what a JSON line and a row of the table show. */
export interface Figure {
  id: string;
  name: string;
  value: number;
  unit: string;
  /** Absent for what is told only. */
  target?: { at: "least" | "most" | "exactly"; value: number };
  /** Least and most of the values whose median it is. */
  spread?: [number, number];
  /** Rates, processor time and counts behind the figure. */
  detail?: Record<string, number | string>;
  note?: string;
}

/** True or false against its target; null where there is none. */
export function isMet({ value, target }: Figure): boolean | null {
  if (target === undefined) return null;
  if (target.at === "exactly") return value === target.value;
  return target.at === "least" ? value >= target.value : value <= target.value;
}

/** Collects the figures of a run and prints each one as a JSON line. */
export class Figures {
  readonly all: Figure[] = [];

  add(figure: Figure): void {
    this.all.push(figure);
    console.log(JSON.stringify(asLine(figure)));
  }

  table(): string {
    const rows = this.all.map((figure) => [
      figure.id,
      figure.name,
      `${round(figure.value)} ${figure.unit}`.trim(),
      figure.spread === undefined ? "" : figure.spread.map((value) => round(value)).join("–"),
      targetText(figure),
      { true: "met", false: "missed", null: "told" }[String(isMet(figure)) as "true"],
    ]);
    return alignColumns([["", "figure", "value", "spread", "target", ""], ...rows]);
  }
}

export function asLine(figure: Figure): object {
  const detail = Object.entries(figure.detail ?? {}).map(([name, value]) => [
    name,
    typeof value === "number" ? round(value, 4) : value,
  ]);
  return {
    ...figure,
    value: round(figure.value, 4),
    ...(figure.spread === undefined ? {} : { spread: figure.spread.map((value) => round(value, 4)) }),
    ...(detail.length === 0 ? {} : { detail: Object.fromEntries(detail) }),
    met: isMet(figure),
  };
}

function targetText({ target }: Figure): string {
  if (target === undefined) return "";
  return `${{ least: ">=", most: "<=", exactly: "=" }[target.at]} ${target.value}`;
}

function alignColumns(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
