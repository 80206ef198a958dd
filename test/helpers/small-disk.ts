import { afterAll } from "bun:test";
import { spawnSync } from "node:child_process";
import { temporaryFolder } from "./temporary-folder.ts";

/** Whether this user may make a disk of his own. */
export const canMount = process.platform === "linux" && process.getuid?.() === 0 && tryMounting();

/** A folder with so much room and no more; gone after the test file. */
export function smallDisk(megabytes: number): string {
  const folder = temporaryFolder();
  const { status, stderr } = mount(folder, megabytes);
  if (status !== 0) throw new Error(`no small disk: ${stderr}`);
  afterAll(() => spawnSync("umount", ["-l", folder]));
  return folder;
}

function mount(folder: string, megabytes: number) {
  const options = ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder];
  return spawnSync("mount", options, { encoding: "utf8" });
}

function tryMounting(): boolean {
  const folder = temporaryFolder();
  const mounted = mount(folder, 1).status === 0;
  if (mounted) spawnSync("umount", [folder]);
  return mounted;
}
