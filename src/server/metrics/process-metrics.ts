import { readdirSync, readFileSync } from "node:fs";

/** The usual ones about the process itself; those that need /proc are left out where there is none. */
export function processMetrics(): string[] {
  const { user, system } = process.cpuUsage();
  return [
    ...metric("process_cpu_seconds_total", "counter", "CPU time spent, in seconds.", (user + system) / 1e6),
    ...metric("process_resident_memory_bytes", "gauge", "Resident memory.", process.memoryUsage.rss()),
    ...metric("process_virtual_memory_bytes", "gauge", "Virtual memory.", virtualMemoryBytes()),
    ...metric(
      "process_start_time_seconds",
      "gauge",
      "Start of the process since the Unix epoch.",
      startSeconds,
    ),
    ...metric("process_open_fds", "gauge", "Open file descriptors.", openFileDescriptors()),
    ...metric("process_max_fds", "gauge", "Most file descriptors that may be open.", maxFileDescriptors()),
  ];
}

const startSeconds = Math.round(Date.now() - process.uptime() * 1000) / 1000;

function metric(name: string, type: string, help: string, value: number | undefined): string[] {
  if (value === undefined || !Number.isFinite(value)) return [];
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`];
}

function virtualMemoryBytes(): number | undefined {
  const stat = read("/proc/self/stat");
  // The fields after the command's name, which may hold spaces; field 23 of the whole line is the size.
  return stat === undefined ? undefined : Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[20]);
}

function openFileDescriptors(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return undefined;
  }
}

function maxFileDescriptors(): number | undefined {
  const limit = /^Max open files\s+(\d+)/m.exec(read("/proc/self/limits") ?? "")?.[1];
  return limit === undefined ? undefined : Number(limit);
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
