import { appendFileSync } from "node:fs";

export const logLevels = ["debug", "info", "warning", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface Logger {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warning(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

export interface LogTarget {
  level: LogLevel;
  /** Lines at or above `level` go to stderr unless this is false. */
  stderr?: boolean;
  /** Every line is appended here, whatever the level. */
  file?: string;
}

/** One line per event: `12:00:01 warning store   message  key=value`. */
export function createLogger(room: string, target: LogTarget): Logger {
  const threshold = logLevels.indexOf(target.level);
  const write = (level: LogLevel, message: string, fields: Record<string, unknown> = {}) => {
    const line = formatLine(level, room, message, fields);
    if (target.file !== undefined) appendQuietly(target.file, line);
    if (target.stderr !== false && logLevels.indexOf(level) >= threshold) process.stderr.write(line);
  };
  return {
    debug: (message, fields) => write("debug", message, fields),
    info: (message, fields) => write("info", message, fields),
    warning: (message, fields) => write("warning", message, fields),
    error: (message, fields) => write("error", message, fields),
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warning() {}, error() {} };

function formatLine(level: LogLevel, room: string, message: string, fields: Record<string, unknown>): string {
  const time = new Date().toISOString().slice(11, 23);
  const pairs = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return `${time} ${level.padEnd(7)} ${room.padEnd(8)} ${message}${pairs.join("")}\n`;
}

function appendQuietly(file: string, line: string): void {
  try {
    appendFileSync(file, line);
  } catch {
    // A log file that cannot be written must never stop a run; stderr still has the line.
  }
}
