import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { silentLogger } from "../../../src/log.ts";
import { Spool, type SpoolOptions } from "../../../src/proxy/recording/spool.ts";
import { encodeRecord, type SpoolRecord } from "../../../src/proxy/recording/spool-records.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

const root = temporaryFolder();
let folders = 0;
const newFolder = () => join(root, String(folders++));

function openSpool(folder: string, options: Partial<SpoolOptions> = {}): Spool {
  return new Spool({ folder, store: "http://s:1", maxBytes: 1e9, log: silentLogger, ...options });
}

const recordOf = (name: string, length = 0): SpoolRecord => ({
  attempt: JSON.stringify(["ro-1", name]),
  spans: JSON.stringify([name, "x".repeat(length)]),
});
const namesOf = (records: SpoolRecord[]) => records.map(({ spans }) => JSON.parse(spans)[0] as string);

async function drain(spool: Spool): Promise<string[]> {
  const names: string[] = [];
  for (;;) {
    const records = await spool.oldest(3, 1e9);
    if (records.length === 0) return names;
    names.push(...namesOf(records));
    await spool.remove(records.length);
  }
}

test("any sequence of writing, taking, ending and starting gives every record, in order", async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("append" as const), count: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant("take" as const), count: fc.integer({ min: 1, max: 4 }) }),
    fc.constant({ kind: "restart" as const, count: 0 }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const folder = newFolder();
      let spool = openSpool(folder, { maxFileBytes: 200 });
      const written: string[] = [];
      const taken: string[] = [];
      for (const { kind, count } of steps) {
        if (kind === "append") {
          const names = Array.from({ length: count }, (_, index) => `${written.length + index}`);
          await spool.append(names.map((name) => recordOf(name)));
          written.push(...names);
        } else if (kind === "take") {
          const records = await spool.oldest(count, 1e9);
          await spool.remove(records.length);
          taken.push(...namesOf(records));
        } else {
          await spool.close();
          spool = openSpool(folder, { maxFileBytes: 200 });
        }
      }
      taken.push(...(await drain(spool)));
      // The rest of a file that was begun comes again after a start; that harms nobody.
      expect([...new Set(taken)]).toEqual(written);
      expect([spool.calls, spool.bytes]).toEqual([0, 0]);
      await spool.close();
    }),
    { numRuns: 60 },
  );
});

test("a write that was cut off by a crash is left out, said, and the calls before it are found", async () => {
  const folder = newFolder();
  const first = openSpool(folder);
  await first.append([recordOf("a"), recordOf("b"), recordOf("c")]);
  await first.close();
  const [name = ""] = readdirSync(folder);
  truncateSync(join(folder, name), readFileSync(join(folder, name)).length - 3);
  const warnings: string[] = [];
  const log = { ...silentLogger, warning: (message: string) => void warnings.push(message) };
  const next = openSpool(folder, { log });
  expect(next.found).toEqual(['["ro-1","a"]', '["ro-1","b"]']);
  expect(await drain(next)).toEqual(["a", "b"]);
  expect(warnings).toEqual(["a file of waiting calls ends in the middle of one, or is damaged"]);
});

test("what lives is not taken from it, what its process left behind is", async () => {
  const folder = newFolder();
  const living = openSpool(folder);
  await living.append([recordOf("mine")]);
  const [name = ""] = readdirSync(folder);
  const dead = name.replace(/^\d+-\d+/, "999999999-1");
  writeFileSync(join(folder, dead), readFileSync(join(folder, name)));
  const other = openSpool(folder);
  expect(await drain(other)).toEqual(["mine"]);
  expect(readdirSync(folder)).toEqual([name]);
  expect(await drain(living)).toEqual(["mine"]);
});

test("calls for another store stay where they are", async () => {
  const folder = newFolder();
  const spool = openSpool(folder, { store: "http://other:1" });
  await spool.append([recordOf("theirs")]);
  await spool.close();
  const ours = openSpool(folder);
  expect([ours.calls, await drain(ours)]).toEqual([0, []]);
  await ours.close();
  expect(await drain(openSpool(folder, { store: "http://other:1" }))).toEqual(["theirs"]);
});

test("a file of something else is left alone, and not taken for another store's", async () => {
  const folder = newFolder();
  mkdirSync(folder);
  const foreign = join(folder, "free-aaff90a2-3.spool");
  writeFileSync(foreign, "\u001b[2J no calls\n");
  const warned: unknown[] = [];
  const log = { ...silentLogger, warning: (...said: unknown[]) => void warned.push(said) };
  const spool = openSpool(folder, { log });
  await spool.close();
  expect(warned).toEqual([
    ["a file that holds no waiting calls, or a damaged one, is left alone", { path: foreign }],
  ]);
  expect(readFileSync(foreign, "utf8")).toBe("\u001b[2J no calls\n");
});

test("the limit is on bytes, and a folder that is not needed is removed", async () => {
  const folder = newFolder();
  const spool = openSpool(folder, { maxBytes: 500 });
  await spool.append([recordOf("a", 100)]);
  expect(spool.isFull()).toBe(false);
  await spool.append([recordOf("b", 400)]);
  expect(spool.isFull()).toBe(true);
  await drain(spool);
  expect(spool.isFull()).toBe(false);
  await spool.close();
  expect(readdirSync(root)).not.toContain(folder.split("/").at(-1) ?? "");
});

test("a write that fails keeps nothing, and the next one works", async () => {
  const folder = newFolder();
  const spool = openSpool(folder);
  await spool.append([recordOf("a")]);
  expect(await drain(spool)).toEqual(["a"]);
  rmSync(folder, { recursive: true });
  writeFileSync(folder, "");
  await expect(spool.append([recordOf("lost")])).rejects.toThrow();
  rmSync(folder);
  await spool.append([recordOf("b")]);
  expect(await drain(spool)).toEqual(["b"]);
});

test("a write that failed and could not be taken back does not come out as calls", async () => {
  const folder = newFolder();
  const spool = openSpool(folder);
  await spool.append([recordOf("a")]);
  const [name = ""] = readdirSync(folder);
  appendFileSync(join(folder, name), encodeRecord(recordOf("told as failed")));
  expect(await drain(spool)).toEqual(["a"]);
  expect([spool.calls, spool.bytes]).toEqual([0, 0]);
});

test("a file that cannot be deleted keeps nobody from what lies behind it", async () => {
  const folder = newFolder();
  const warnings: string[] = [];
  const log = { ...silentLogger, warning: (message: string) => void warnings.push(message) };
  const spool = openSpool(folder, { log, maxFileBytes: 1 });
  await spool.append([recordOf("a")]);
  await spool.append([recordOf("b")]);
  expect(namesOf(await spool.oldest(1, 1e9))).toEqual(["a"]);
  const [name = ""] = readdirSync(folder).toSorted();
  rmSync(join(folder, name));
  mkdirSync(join(folder, name, "occupied"), { recursive: true });
  await spool.remove(1);
  expect(await drain(spool)).toEqual(["b"]);
  expect(warnings).toEqual(["calls that are stored are sent again at the next start"]);
});

test("one proxy that ends does not take the folder from another that has written nothing yet", async () => {
  const folder = newFolder();
  const [ending, living] = [openSpool(folder), openSpool(folder)];
  await ending.close();
  await living.append([recordOf("a")]);
  expect(await drain(living)).toEqual(["a"]);
});

describe("a folder that cannot be used", () => {
  test("is refused by name with the setting", () => {
    const file = join(root, "file");
    writeFileSync(file, "");
    chmodSync(file, 0o644);
    expect(() => openSpool(join(file, "spool"))).toThrow(`${join(file, "spool")}: calls cannot wait there`);
  });
});
