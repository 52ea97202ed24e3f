// The form of /submit: shows the fields of the way that was chosen, and takes over the job file that the form makes.
"use strict";
(() => {
  const form = document.getElementById("submit");

  function choose(mode) {
    form.elements.mode.value = mode;
    for (const name of ["form", "yaml"]) {
      const part = document.getElementById(`by-${name}`);
      part.hidden = name !== mode;
      part.disabled = name !== mode;
    }
  }

  form.addEventListener("change", (event) => { if (event.target.name === "mode") choose(event.target.value); });
  document.addEventListener("click", (event) => {
    if (event.target.id !== "edit") return;
    form.elements.yaml.value = document.getElementById("made").textContent;
    choose("yaml");
    form.elements.yaml.focus();
  });
  choose(form.elements.yaml.value ? "yaml" : form.elements.mode.value);
})();
