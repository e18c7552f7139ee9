// Keeps the page up to date: on each event it is asked for again, and what differs is put in.
"use strict";
(() => {
  const live = document.getElementById("live");
  const SECTIONS = ["summary", "units", "evidence"];
  const RETRY = 5000; // milliseconds
  const CLOCK = 30000; // "for 3 min" goes on though nothing happens
  let asking = false;
  let again = false;

  const say = (text, mood) => {
    if (live.textContent !== text) live.textContent = text;
    live.className = `live ${mood}`;
  };

  const states = (root) =>
    new Map(Array.from(root.querySelectorAll("[data-unit]"), (row) => [row.dataset.unit, row.dataset.state]));

  const refresh = async () => {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      const answer = await fetch("./", { cache: "no-store" });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const before = states(document);
      const changed = [...states(fresh)].filter(([unit, state]) => before.has(unit) && before.get(unit) !== state);
      const focused = document.activeElement && document.activeElement.getAttribute("href");
      for (const id of SECTIONS) {
        const old = document.getElementById(id);
        const now = fresh.getElementById(id);
        if (now && old.innerHTML !== now.innerHTML) old.replaceWith(now);
      }
      document.title = fresh.title;
      if (focused) {
        const link = Array.from(document.links).find((each) => each.getAttribute("href") === focused);
        if (link) link.focus({ preventScroll: true });
      }
      // A screen reader hears changes of state, and only those.
      say(changed.length ? changed.map(([unit, state]) => `${unit}: ${state}`).join(", ") : "live", "on");
    } catch (error) {
      say("not up to date", "off");
    } finally {
      asking = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  const listen = () => {
    const events = new EventSource("api/events");
    const lost = (text) => {
      events.close();
      say(text, "off");
      setTimeout(listen, RETRY);
    };
    events.addEventListener("units", refresh);
    events.addEventListener("end", () => lost("the sidecar is stopping"));
    events.onerror = () => lost("no connection, trying again");
  };

  listen();
  setInterval(() => document.hidden || refresh(), CLOCK);
})();
