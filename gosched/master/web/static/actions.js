// Forms that change something: `<form class="js" data-api action="/api/v1/..." data-done="..." data-confirm="...">`.
// The fields become JSON, the answer is said in words, and what the page shows is asked for again. With the question a
// number may be asked for, which goes into the query: `data-amount="its name" data-least data-most data-now`.
// Only a script of this site can send such a request: JSON from another site is refused by the browser before it is sent.
"use strict";
(() => {
  const said = document.getElementById("said");
  const notice = document.getElementById("notice");

  function fields(form) {
    const body = {};
    for (const [name, value] of new FormData(form)) {
      if (value !== "") body[name] = form.elements[name].type === "number" ? Number(value) : value;
    }
    return body;
  }

  function say(text, failed) {
    notice.textContent = text;
    notice.hidden = !text;
    notice.classList.toggle("failed", failed);
    if (!failed) setTimeout(() => { if (notice.textContent === text) notice.hidden = true; }, 6000);
  }

  async function send(form, button, query = "") {
    button.disabled = true;
    try {
      const answer = await fetch(form.getAttribute("action") + query, {
        method: form.dataset.method || "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": crypto.getRandomValues(new Uint32Array(4)).join("-") },
        body: JSON.stringify(fields(form)),
        signal: AbortSignal.timeout(15000),
      });
      const told = await answer.json().catch(() => ({}));
      if (answer.ok) say(form.dataset.done || "Done.", false);
      else say(told.detail || `It was refused (${answer.status}).`, true);
    } catch (error) {
      say(`No answer: ${error.message}. It may have been done all the same.`, true);
    } finally {
      button.disabled = false;
      document.dispatchEvent(new Event("refresh-now"));
    }
  }

  // A question before what cannot be taken back. Escape and "Leave it" answer no.
  function ask(asking, answer, then) {
    const dialog = document.createElement("dialog");
    const words = document.createElement("p");
    words.id = "question";
    words.textContent = asking.confirm;
    dialog.setAttribute("aria-labelledby", words.id);
    const form = document.createElement("form");
    form.method = "dialog";
    form.className = "actions";
    const [no, yes] = ["Leave it", answer].map((text) => Object.assign(document.createElement("button"), { textContent: text }));
    no.type = "button"; // or the key Enter in the field would press it
    no.addEventListener("click", () => dialog.close());
    yes.value = "yes";
    yes.className = "danger";
    form.append(...(asking.amount ? [amount(asking)] : []), no, yes);
    dialog.append(words, form);
    dialog.addEventListener("close", () => {
      const query = new URLSearchParams(new FormData(form)).toString();
      dialog.remove();
      if (dialog.returnValue === "yes") then(query && `?${query}`);
    });
    document.body.append(dialog);
    dialog.showModal();
  }

  function amount(asking) {
    const field = document.createElement("input");
    const { amount: name, least: min, most: max, now: value } = asking;
    Object.assign(field, { type: "number", required: true, name, min, max, value });
    field.setAttribute("aria-labelledby", "question");
    return field;
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !("api" in form.dataset)) return;
    event.preventDefault();
    const button = event.submitter || form.querySelector("button");
    if (!form.dataset.confirm) send(form, button);
    else ask(form.dataset, button.textContent, (query) => send(form, button, query));
  });
})();
