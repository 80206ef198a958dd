/** A body that is not what it says it is: the sender's fault, with what is wrong and where. */
export class PayloadError extends Error {}

/** How many messages one request may hold: a short body can name very many empty ones. */
const maxMessages = 4 * 1024 * 1024;

/** Shared by all readers of one request. */
export class MessageBudget {
  #left: number;

  constructor(messages = maxMessages) {
    this.#left = messages;
  }

  take(): void {
    this.#left -= 1;
    if (this.#left < 0)
      throw new PayloadError("the request holds too many messages: send fewer spans at once");
  }
}
