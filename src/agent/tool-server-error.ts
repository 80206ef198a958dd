/** A tool server that could not be started or that ended during a call. */
export class ToolServerError extends Error {
  /** Its last lines on stderr, oldest first. */
  readonly stderr: string[];

  constructor(message: string, stderr: string[] = []) {
    super(message);
    this.name = "ToolServerError";
    this.stderr = stderr;
  }
}
