import { cpSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Compiles ./agl. The files it carries are packed as one archive first: they are small that way, and the name of
 * the archive's content is the name of the folder they are extracted to.
 */
const root = join(import.meta.dir, "..");
const work = join(root, ".build");

const carried = ["trainer", "data"];
const leftOut = /(^|\/)(__pycache__|\.[^/]*|tests)(\/|$)/;

async function packAssets(): Promise<void> {
  const files: Record<string, Uint8Array> = {};
  for (const folder of carried) {
    const glob = new Bun.Glob("**/*");
    for await (const name of glob.scan({ cwd: join(root, folder), dot: false })) {
      const path = `${folder}/${name}`;
      if (leftOut.test(path)) continue;
      files[path] = new Uint8Array(await Bun.file(join(root, path)).arrayBuffer());
    }
  }
  const sorted = Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1)));
  const tar = await new Bun.Archive(sorted).bytes();
  const packed = await Bun.zstdCompress(tar, { level: 19 });
  await Bun.write(join(work, "assets.tar.zst"), packed);
}

function prepare(): void {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  cpSync(join(root, "src"), join(work, "src"), { recursive: true });
  for (const name of ["package.json", "tsconfig.json"]) cpSync(join(root, name), join(work, name));
  if (!existsSync(join(root, "node_modules")))
    throw new Error("node_modules is missing: run `bun install` first");
}

prepare();
await packAssets();
writeFileSync(
  join(work, "src", "embedded.ts"),
  `import archive from "../assets.tar.zst" with { type: "file" };\nexport const embeddedArchive: string | undefined = archive;\n`,
);
const started = Date.now();
const built = Bun.spawnSync(
  [
    process.execPath,
    "build",
    "--compile",
    "--minify-whitespace",
    "--minify-syntax",
    "--bytecode",
    "--format=esm",
    "--splitting",
    "--sourcemap",
    "--no-compile-autoload-bunfig",
    "--no-compile-autoload-dotenv",
    "--compile-autoload-tsconfig",
    "--compile-autoload-package-json",
    "src/main.ts",
    "src/store-worker.ts",
    "src/checkpoint-worker.ts",
    "src/proxy-worker.ts",
    "src/runner-worker.ts",
    "--outfile",
    join(work, "agl"),
  ],
  { cwd: work, stdout: "inherit", stderr: "inherit", env: { ...process.env, BUN_OPTIONS: undefined } },
);
if (!built.success) process.exit(built.exitCode || 1);
// A running ./agl keeps its old file.
rmSync(join(root, "agl"), { force: true });
renameSync(join(work, "agl"), join(root, "agl"));
console.log(
  `built ./agl (${Math.round(Bun.file(join(root, "agl")).size / 1e6)} MB, ${Date.now() - started} ms)`,
);
