import { expect, test } from "bun:test";
import { LogLines } from "../../src/runner/log-lines.ts";

function collect(): { lines: LogLines; sent: [number | undefined, string[]][] } {
  const sent: [number | undefined, string[]][] = [];
  return { lines: new LogLines((key, texts) => void sent.push([key, texts])), sent };
}

test("lines of one burst are sent together, each run's apart", async () => {
  const { lines, sent } = collect();
  lines.add(1, "one\ntwo\n");
  lines.add(2, "other");
  lines.add(1, "three");
  expect(sent).toEqual([]);
  await Bun.sleep(0);
  expect(sent).toEqual([
    [1, ["one", "two", "three"]],
    [2, ["other"]],
  ]);
});

test("of a long burst the last lines are kept, and long lines are cut", () => {
  const { lines, sent } = collect();
  for (let n = 1; n <= 1000; n++) lines.add(1, `line ${n}`);
  lines.add(1, "x".repeat(10_000));
  lines.flush();
  const [, texts] = sent[0]!;
  expect(texts.length).toBe(LogLines.kept);
  expect(texts.at(-2)).toBe("line 1000");
  expect(texts.at(-1)?.length).toBe(LogLines.maxLineLength);
});
