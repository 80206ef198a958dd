import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { embeddedArchive } from "./embedded.ts";

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
  mkdirSync(join(cacheFolder, "assets"), { recursive: true });
  const temporary = mkdtempSync(join(cacheFolder, "assets", `${name}-`));
  await new Bun.Archive(Bun.zstdDecompressSync(packed)).extract(temporary);
  writeFileSync(join(temporary, marker), "");
  try {
    renameSync(temporary, folder);
  } catch (error) {
    // Another start was faster; its files are the same.
    rmSync(temporary, { recursive: true, force: true });
    if (!existsSync(join(folder, marker))) throw error;
  }
  return folder;
}
