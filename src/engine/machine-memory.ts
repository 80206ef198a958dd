import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import { join } from "node:path";

export interface MachineMemory {
  totalBytes: number;
  /** What programs can still take, caches of files counted as free. */
  freeBytes: number;
}

/** The memory of this machine, or of the container when that has less. */
export function machineMemory(root = "/"): MachineMemory {
  const machine = fromMeminfo(root) ?? { totalBytes: totalmem(), freeBytes: freemem() };
  const container = fromControlGroup(join(root, "sys/fs/cgroup"));
  if (container === undefined || container.totalBytes >= machine.totalBytes) return machine;
  return {
    totalBytes: container.totalBytes,
    freeBytes: Math.min(machine.freeBytes, container.freeBytes),
  };
}

function fromMeminfo(root: string): MachineMemory | undefined {
  const text = read(join(root, "proc/meminfo"));
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  const [totalBytes, freeBytes] = [kilobytes("MemTotal") * 1024, kilobytes("MemAvailable") * 1024];
  return Number.isNaN(totalBytes + freeBytes) ? undefined : { totalBytes, freeBytes };
}

function fromControlGroup(folder: string): MachineMemory | undefined {
  const versions = [
    { limit: "memory.max", used: "memory.current", stat: "memory.stat", cache: "inactive_file" },
    {
      limit: "memory/memory.limit_in_bytes",
      used: "memory/memory.usage_in_bytes",
      stat: "memory/memory.stat",
      cache: "total_inactive_file",
    },
  ];
  for (const { limit, used, stat, cache } of versions) {
    const totalBytes = Number.parseInt(read(join(folder, limit)), 10);
    const usedBytes = Number.parseInt(read(join(folder, used)), 10);
    if (Number.isNaN(totalBytes + usedBytes)) continue;
    const cached = Number(new RegExp(`^${cache} (\\d+)$`, "m").exec(read(join(folder, stat)))?.[1] ?? 0);
    return { totalBytes, freeBytes: Math.max(0, totalBytes - usedBytes + cached) };
  }
  return undefined;
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
