import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { embeddedArchive } from "./embedded.ts";
import { AglError, messageOf } from "./errors.ts";

const marker = ".complete";

/**
 * The folder that holds `trainer/` and `data/`: the repository from source; compiled, a folder in the cache, named by its
 * content, into which the carried files are extracted once.
 */
export async function assetFolder(cacheFolder: string): Promise<string> {
  if (embeddedArchive === undefined) return join(import.meta.dir, "..");
  const packed = readFileSync(embeddedArchive);
  const name = new Bun.CryptoHasher("sha256").update(packed).digest("hex").slice(0, 16);
  const folder = join(cacheFolder, "assets", name);
  if (existsSync(join(folder, marker))) return folder;
  try {
    await extract(packed, folder);
  } catch (error) {
    throw new AglError(
      "configuration",
      `${cacheFolder}: the files agl carries cannot be written (${messageOf(error)})`,
      {
        remedy: "free some space there, or name another folder with --cache",
      },
    );
  }
  return folder;
}

async function extract(packed: Buffer, folder: string): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  const temporary = mkdtempSync(`${folder}-`);
  try {
    await new Bun.Archive(Bun.zstdDecompressSync(packed)).extract(temporary);
    writeFileSync(join(temporary, marker), "");
    renameSync(temporary, folder);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    // Another start may have been faster; its files are the same.
    if (!existsSync(join(folder, marker))) throw error;
  }
}
