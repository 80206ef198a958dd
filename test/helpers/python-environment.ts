import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./temporary-folder.ts";

/** The Python of a new virtual environment in which packages of these versions seem to be installed. */
export function environmentWith(packages: Record<string, string>, modules: string[] = []): string {
  const folder = join(temporaryFolder(), "environment");
  const made = Bun.spawnSync(["python3", "-m", "venv", "--without-pip", folder]);
  if (!made.success) throw new Error(made.stderr.toString());
  const python = readdirSync(join(folder, "lib")).find((name) => name.startsWith("python")) ?? "";
  const site = join(folder, "lib", python, "site-packages");
  for (const [name, version] of Object.entries(packages)) {
    const info = join(site, `${name.replaceAll("-", "_")}-${version}.dist-info`);
    mkdirSync(info, { recursive: true });
    writeFileSync(join(info, "METADATA"), `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`);
  }
  for (const name of modules) writeFileSync(join(site, `${name}.py`), "");
  return join(folder, "bin", "python");
}
