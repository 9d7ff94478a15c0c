/** An event emitter. @template Events the detail of each event, by name */
export class EventEmitter {
  listeners = /** @type {Map<string, ((detail: never) => unknown)[]>} */ (new Map());

  /** `events`: one or several names, with spaces between.
   *  @template {string} Names @param {Names} events @param {(detail: DetailOf<Events, Names>) => unknown} listener */
  on(events, listener) {
    for (const event of events.split(" ")) this.listeners.set(event, [...(this.listeners.get(event) || []), listener]);
  }

  /** Calls the listeners. One that fails affects neither the others nor the caller: a drawing error is no lost server.
   *  @template {keyof Events & string} Name @param {Name} event @param {Events[Name]} [detail] */
  emit(event, detail) {
    for (const listener of this.listeners.get(event) || []) {
      try {
        listener(/** @type {never} */ (detail));
      } catch (error) {
        console.error(error);
      }
    }
  }
}
