import { readFileSync, statfsSync } from "node:fs";
import { arch, cpus, freemem, hostname, platform, release, totalmem } from "node:os";
import type { JsonObject } from "../protocol/types.ts";

const gigabyte = 2 ** 30;
const megabyte = 2 ** 20;

/** The machine's figures for a worker's heartbeat; load is measured since the previous call. */
export function createWorkerStats(): () => JsonObject {
  let previous = cpuTimes();
  return () => {
    const now = cpuTimes();
    const spent = now.all - previous.all;
    const busy = spent > 0 ? 100 * (1 - (now.idle - previous.idle) / spent) : 0;
    previous = now;
    const threads = cpus().length;
    return {
      timestamp: localTime(new Date()),
      host: hostname(),
      os: `${platform()}-${release()}`,
      cpu_name: arch(),
      cpu_cores: threads,
      cpu_threads: threads,
      cpu_usage_pct: round(busy),
      ...memory(),
      ...disk(),
      ...network(),
    };
  };
}

function cpuTimes(): { idle: number; all: number } {
  let idle = 0;
  let all = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    all += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, all };
}

function memory(): JsonObject {
  const total = totalmem();
  const used = total - freemem();
  return {
    mem_used_gb: round(used / gigabyte),
    mem_total_gb: round(total / gigabyte),
    mem_pct: round((100 * used) / total),
  };
}

function disk(): JsonObject {
  try {
    const { bsize, blocks, bfree } = statfsSync("/");
    const used = blocks - bfree;
    return {
      disk_used_gb: round((used * bsize) / gigabyte),
      disk_total_gb: round((blocks * bsize) / gigabyte),
      disk_pct: round((100 * used) / blocks),
    };
  } catch {
    return {};
  }
}

function network(): JsonObject {
  try {
    const rows = readFileSync("/proc/net/dev", "utf8").split("\n").slice(2);
    const counters = rows.map((row) => row.trim().split(/[:\s]+/));
    const sum = (column: number) => counters.reduce((total, row) => total + Number(row[column] ?? 0), 0);
    return { bytes_sent_mb: round(sum(9) / megabyte), bytes_recv_mb: round(sum(1) / megabyte) };
  } catch {
    return {};
  }
}

/** Local time without a zone, as upstream's runners write it. */
function localTime(date: Date): string {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
