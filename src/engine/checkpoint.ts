import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { AglError, messageOf } from "../errors.ts";
import { adapterFolder, adapterProblem } from "./lora-adapter.ts";
import { hashTensor, readTensors, type Tensor } from "./safetensors.ts";

export interface CheckpointManifest {
  base: string;
  /** SHA-256 over the names, types, shapes and bytes of all tensors, whatever files they lie in. */
  digest: string;
  base_digest: string;
  tensors: { total: number; changed: number };
  /** Bytes of each file, those of the LoRA adapter among them. */
  files: Record<string, number>;
}

export const stableMarker = "STABLE";
const trainerManifest = "agl-manifest.json";
const weightSuffixes = [
  ".safetensors",
  ".safetensors.index.json",
  ".bin",
  ".bin.index.json",
  ".pt",
  ".pth",
  ".gguf",
];
const indexSchema = v.object({ weight_map: v.record(v.string(), v.string()) });
const markerSchema = v.object({ files: v.record(v.string(), v.number()) });

/**
 * Proves that a folder is a whole model trained from the base: every file complete, the base's tensors with other
 * values, everything else the base's byte for byte. Throws with the first thing that is wrong.
 */
export async function proveCheckpoint(folders: {
  base: string;
  candidate: string;
  /** Whether it has to hold its LoRA adapter by itself, too. */
  adapter?: boolean;
}): Promise<CheckpointManifest> {
  const { base, candidate } = folders;
  const before = openWeights(base);
  const after = openWeights(candidate);
  compareTensors(before, after, candidate);
  compareCompanions(base, candidate);
  if (folders.adapter === true) proveAdapter(base, candidate);
  const oldHashes = await hashAll(before);
  const newHashes = await hashAll(after);
  const changed = [...newHashes].filter(([name, hash]) => oldHashes.get(name) !== hash).length;
  if (changed === 0) {
    throw refusal(
      candidate,
      "its weights equal the base's: nothing was learned, or the adapter was lost in the merge",
    );
  }
  return {
    base,
    digest: digestOf(after, newHashes),
    base_digest: digestOf(before, oldHashes),
    tensors: { total: newHashes.size, changed },
    files: fileSizes(candidate),
  };
}

/**
 * Makes a proven folder visible under its final name: contents on disk first, then the name, then the marker. A kill at
 * any point leaves either no final folder or one that `isStableCheckpoint` tells apart.
 */
export async function publishCheckpoint(
  temporary: string,
  final: string,
  manifest?: CheckpointManifest,
): Promise<void> {
  if (existsSync(final)) {
    throw new AglError("trainer", `${final}: exists already and is never overwritten`, {
      remedy: "start a new run, or move that checkpoint away",
    });
  }
  for (const name of readdirSync(temporary, { recursive: true })) synchronise(join(temporary, String(name)));
  synchronise(temporary);
  renameSync(temporary, final);
  synchronise(dirname(final));
  const marker = join(final, stableMarker);
  writeFileSync(
    `${marker}.incomplete`,
    JSON.stringify(manifest ?? { files: fileSizes(final) }, null, 1) + "\n",
  );
  synchronise(`${marker}.incomplete`);
  renameSync(`${marker}.incomplete`, marker);
  synchronise(final);
}

/** True when the folder was published to the end and its files still have their sizes. */
export function isStableCheckpoint(path: string): boolean {
  try {
    const marker = v.parse(markerSchema, JSON.parse(readFileSync(join(path, stableMarker), "utf8")));
    return Object.entries(marker.files).every(([name, bytes]) => statSync(join(path, name)).size === bytes);
  } catch {
    return false;
  }
}

type Weights = Map<string, { file: string; tensor: Tensor }>;

function openWeights(folder: string): Weights {
  const weights: Weights = new Map();
  for (const name of list(folder).filter((file) => file.endsWith(".safetensors"))) {
    const file = join(folder, name);
    try {
      for (const [tensorName, tensor] of readTensors(file)) weights.set(tensorName, { file, tensor });
    } catch (error) {
      throw refusal(folder, `${name} is not a complete safetensors file: ${messageOf(error)}`);
    }
  }
  checkIndexes(folder, weights);
  if (weights.size === 0) throw refusal(folder, "it holds no weights (*.safetensors)");
  return weights;
}

function checkIndexes(folder: string, weights: Weights): void {
  for (const name of list(folder).filter((file) => file.endsWith(".safetensors.index.json"))) {
    const parsed = v.safeParse(indexSchema, readJson(join(folder, name)));
    if (!parsed.success) throw refusal(folder, `${name} is no index of weights`);
    for (const [tensorName, shard] of Object.entries(parsed.output.weight_map)) {
      if (!existsSync(join(folder, shard))) throw refusal(folder, `${shard}, named in ${name}, is missing`);
      if (weights.get(tensorName)?.file !== join(folder, shard)) {
        throw refusal(folder, `tensor ${tensorName} is not in ${shard}, where ${name} says it is`);
      }
    }
  }
}

function compareTensors(before: Weights, after: Weights, candidate: string): void {
  for (const [name, { tensor }] of before) {
    const other = after.get(name)?.tensor;
    if (other === undefined) throw refusal(candidate, `tensor ${name} of the base is missing`);
    if (describe(other) !== describe(tensor)) {
      throw refusal(candidate, `tensor ${name} is ${describe(other)}, in the base ${describe(tensor)}`);
    }
  }
  const added = [...after.keys()].find((name) => !before.has(name));
  if (added !== undefined) throw refusal(candidate, `tensor ${added} is not in the base`);
}

function compareCompanions(base: string, candidate: string): void {
  const wanted = companions(base);
  for (const name of wanted) {
    if (!existsSync(join(candidate, name))) throw refusal(candidate, `${name} of the base is missing`);
    if (!readFileSync(join(candidate, name)).equals(readFileSync(join(base, name)))) {
      throw refusal(candidate, `${name} differs from the base's`);
    }
  }
  if (!wanted.includes("config.json")) throw refusal(base, "it holds no config.json");
  const added = companions(candidate).find((name) => !wanted.includes(name));
  if (added !== undefined) throw refusal(candidate, `${added} is not in the base`);
}

function proveAdapter(base: string, candidate: string): void {
  const problem = adapterProblem(join(candidate, adapterFolder), base);
  if (problem !== undefined) throw refusal(candidate, `its LoRA adapter ${problem}`);
}

/** Files that belong to a model and are no weights: configuration, tokenizer, chat template, settings. */
function companions(folder: string): string[] {
  return list(folder).filter(
    (name) =>
      name !== trainerManifest &&
      name !== stableMarker &&
      !weightSuffixes.some((suffix) => name.endsWith(suffix)),
  );
}

async function hashAll(weights: Weights): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  for (const [name, { file, tensor }] of weights) {
    hashes.set(name, hashTensor(file, tensor));
    // Hashing gigabytes must not keep timers and signals waiting.
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return hashes;
}

function digestOf(weights: Weights, hashes: Map<string, string>): string {
  const hasher = new Bun.CryptoHasher("sha256");
  for (const name of [...weights.keys()].sort()) {
    hasher.update(`${name} ${describe(weights.get(name)!.tensor)} ${hashes.get(name)}\n`);
  }
  return hasher.digest("hex");
}

function describe({ dtype, shape }: Tensor): string {
  return `${dtype} [${shape.join(", ")}]`;
}

function fileSizes(folder: string): Record<string, number> {
  const inner = join(folder, adapterFolder);
  const names = existsSync(inner) ? list(inner).map((name) => `${adapterFolder}/${name}`) : [];
  return Object.fromEntries(
    [...list(folder), ...names].map((name) => [name, statSync(join(folder, name)).size]),
  );
}

function list(folder: string): string[] {
  if (!existsSync(folder)) throw refusal(folder, "it does not exist");
  return readdirSync(folder)
    .filter((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile())
    .sort();
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}

function synchronise(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function refusal(folder: string, what: string): AglError {
  return new AglError("trainer", `the checkpoint ${folder} is refused: ${what}`);
}
