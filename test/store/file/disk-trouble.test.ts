import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../../src/store/sqlite-store.ts";
import { type ServedStore, startServedStore } from "../../helpers/served-store.ts";
import { canMount, smallDisk } from "../../helpers/small-disk.ts";
import { temporaryFolder } from "../../helpers/temporary-folder.ts";

/** Text of some kilobytes that does not compress to nothing. */
const input = () => Buffer.from(crypto.getRandomValues(new Uint8Array(15_000))).toString("base64");

async function enqueue(store: ServedStore): Promise<{ status: number; id?: string; detail?: string }> {
  const response = await fetch(`${store.url}/v1/agl/queues/rollouts/enqueue`, {
    method: "POST",
    body: JSON.stringify({ rollouts: [{ input: input() }] }),
  });
  const answer: any = await response.json();
  return { status: response.status, id: answer[0]?.rollout_id, detail: answer.detail };
}

/** Writes until the store refuses; the ids of what it took, and the refusal. */
async function enqueueUntilRefused(store: ServedStore) {
  const ids: string[] = [];
  for (let count = 0; count < 2_000; count += 1) {
    const { status, id, detail } = await enqueue(store);
    if (status !== 201) return { ids, status, detail };
    ids.push(id!);
  }
  throw new Error("2,000 rollouts fit");
}

async function idsIn(store: ServedStore): Promise<string[]> {
  const response = await fetch(`${store.url}/v1/agl/rollouts`);
  expect(response.status).toBe(200);
  const { items }: any = await response.json();
  return items.map(({ rollout_id }: any) => rollout_id);
}

function integrityOf(path: string): unknown {
  const db = new Database(path);
  const found = db.query("PRAGMA integrity_check").get();
  db.close();
  return found;
}

/** Takes all the room that is left; returns what gives it back. */
function fill(disk: string): () => void {
  const filler = join(disk, `filler-${crypto.randomUUID()}`);
  const { bavail, bsize } = statfsSync(disk);
  writeFileSync(filler, new Uint8Array(bavail * bsize));
  return () => rmSync(filler);
}

describe.skipIf(!canMount)("on a disk that is full", () => {
  test("writes are refused with what to do, reads go on, and writes go on as soon as there is room", async () => {
    const disk = smallDisk(8);
    const path = join(disk, "agl.db");
    const filler = join(disk, "filler");
    writeFileSync(filler, new Uint8Array(3_000_000));
    const store = await startServedStore(path);
    try {
      const { ids, status, detail } = await enqueueUntilRefused(store);
      expect(status).toBe(503);
      expect(detail).toBe(
        "the disk is full: nothing of this was stored " +
          "(make room on the disk of the store's file; the store then takes writes again by itself)",
      );
      expect(await idsIn(store)).toEqual(ids);
      rmSync(filler);
      const { status: later, id } = await enqueue(store);
      expect(later).toBe(201);
      expect(await idsIn(store)).toEqual([...ids, id!]);
      expect(await store.end("SIGTERM")).toBe(0);
      expect(integrityOf(path)).toEqual({ integrity_check: "ok" });
    } finally {
      await store.end("SIGKILL");
    }
  });

  test("a store stops cleanly, and does not start until there is room; nothing is lost", async () => {
    const disk = smallDisk(8);
    const path = join(disk, "agl.db");
    const first = await startServedStore(path);
    const { id } = await enqueue(first);
    const makeRoom = fill(disk);
    await enqueueUntilRefused(first);
    expect(await first.end("SIGTERM")).toBe(0);
    fill(disk);
    const refusal = await startServedStore(path).catch((error: Error) => error.message);
    expect(refusal).toContain(`cannot open the store file ${path}: its disk is full`);
    expect(refusal).toContain("make room");
    makeRoom();
    const second = await startServedStore(path);
    expect((await idsIn(second))[0]).toBe(id!);
    expect((await enqueue(second)).status).toBe(201);
    expect(await second.end("SIGTERM")).toBe(0);
  });
});

describe("when the file may not grow", () => {
  test("writes are refused with what to do until it may, and nothing is damaged", async () => {
    const path = join(temporaryFolder(), "agl.db");
    // Blocks of 512 bytes; the signal would end the process before it sees the error.
    const limited = ["sh", "-c", 'trap "" XFSZ; ulimit -S -f 2000; exec "$@"', "sh"];
    const store = await startServedStore(path, { through: limited });
    try {
      const { ids, status, detail } = await enqueueUntilRefused(store);
      expect(ids.length).toBeGreaterThan(5);
      expect(status).toBe(503);
      expect(detail).toMatch(/^the store file could not be written: .*\(check the free space/);
      expect(await idsIn(store)).toEqual(ids);
      Bun.spawnSync(["prlimit", "--pid", String(store.pid), "--fsize=unlimited"]);
      expect((await enqueue(store)).status).toBe(201);
      expect(await store.end("SIGTERM")).toBe(0);
      expect(integrityOf(path)).toEqual({ integrity_check: "ok" });
    } finally {
      await store.end("SIGKILL");
    }
  });
});

describe("in a folder that cannot be written", () => {
  async function openAsNobody(path: string): Promise<any> {
    const script = join(import.meta.dir, "../../helpers/open-as-nobody.ts");
    const child = Bun.spawn([process.execPath, script, path], { stdout: "pipe", stderr: "inherit" });
    return JSON.parse(await new Response(child.stdout).text());
  }

  function folder(): string {
    const path = join(temporaryFolder(), "store");
    mkdirSync(path);
    chmodSync(join(path, ".."), 0o755);
    return path;
  }

  const refused = (path: string) => ({
    opened: false,
    expected: true,
    message: expect.stringContaining(`cannot open the store file ${path}`),
    remedy: expect.stringContaining("permissions"),
  });

  test("no file is made, and the error says what to look at", async () => {
    const place = folder();
    chmodSync(place, 0o555);
    const path = join(place, "agl.db");
    expect(await openAsNobody(path)).toEqual(refused(path));
    const below = join(place, "new", "agl.db");
    expect(await openAsNobody(below)).toEqual(refused(below));
    expect(readdirSync(place)).toEqual([]);
  });

  test("a file that is there is refused untouched, and opens again once it may be written", async () => {
    const place = folder();
    const path = join(place, "agl.db");
    await openStore({ path }).close();
    const files = () =>
      readdirSync(place).map((name) => [name, readFileSync(join(place, name)).toString("base64")]);
    chmodSync(path, 0o444);
    chmodSync(place, 0o555);
    const before = files();
    expect(await openAsNobody(path)).toEqual(refused(path));
    expect(files()).toEqual(before);
    chmodSync(place, 0o777);
    for (const name of readdirSync(place)) chmodSync(join(place, name), 0o666);
    expect(await openAsNobody(path)).toEqual({ opened: true });
  });
});
