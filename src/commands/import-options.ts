import { Argument, type Command } from "commander";

export interface ImportOptions {
  db: string;
  dryRun?: boolean;
}

export function addImportOptions(command: Command): void {
  command
    .addArgument(new Argument("<file>", "JSON lines of `agl export`; - reads stdin"))
    .requiredOption("--db <file>", "the store's file; made when it is missing")
    .option("--dry-run", "check every line and count, but write nothing")
    .addHelpText("after", importHelp);
}

const importHelp = `
Takes what \`agl export all\` writes, and the lines of \`agl export\` rollouts, attempts, spans, resources and workers,
rollouts before their attempts and attempts before their spans. Everything is stored as it was: ids, times, statuses,
sequence ids, versions. Rollouts that waited for a runner wait again, in the order of the lines.

What is there already is counted and left alone, so the same file can be imported twice. One bad line, or an id that is
there with other content, and nothing is imported. Triplets and rows are no input: they are made from spans.

A store at work holds its file: stop its process first.

  agl export all --run 2026-11-29-1 | agl import - --db all-runs.db`;
