import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A folder with the wheel of a package of one module, and a pinned set that asks for it. */
export function wheelFolder(
  folder: string,
  name: string,
  source: string,
): { links: string; requirements: string } {
  const links = join(folder, "links");
  const requirements = join(folder, "requirements");
  const info = `${name}-1.0.dist-info`;
  const files = {
    [`${name}.py`]: source,
    [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1.0\n`,
    [`${info}/WHEEL`]: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    [`${info}/RECORD`]: `${name}.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`,
  };
  const content = join(folder, "content");
  mkdirSync(join(content, info), { recursive: true });
  for (const [path, text] of Object.entries(files)) writeFileSync(join(content, path), text);
  mkdirSync(links, { recursive: true });
  const wheel = join(links, `${name}-1.0-py3-none-any.whl`);
  const zip = Bun.spawnSync(["python3", "-m", "zipfile", "-c", wheel, `${name}.py`, info], { cwd: content });
  if (!zip.success) throw new Error(zip.stderr.toString());
  const hash = new Bun.CryptoHasher("sha256").update(readFileSync(wheel)).digest("hex");
  mkdirSync(requirements, { recursive: true });
  writeFileSync(join(requirements, "cpu.txt"), `${name}==1.0 \\\n    --hash=sha256:${hash}\n`);
  return { links, requirements };
}
