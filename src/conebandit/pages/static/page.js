// The little that a page needs beside htmx. Everything works without it, by links and buttons.
"use strict";

// What a slider stands at, beside it, while it is moved.
document.addEventListener("input", (event) => {
  const shown = event.target.id && document.querySelector(`output[for="${CSS.escape(event.target.id)}"]`);
  if (shown) shown.value = event.target.value;
});

// Copies the text of the element that data-copy names.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
});

// Links inside of pictures, which htmx leaves to the browser: what they lead to goes into the element that is named.
document.addEventListener("click", (event) => {
  const link = event.target.closest("svg a[href]"), into = event.target.closest("[data-into]");
  if (!link || !into || !window.htmx || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  window.htmx.ajax("GET", link.getAttribute("href"), into.dataset.into);
});

// A page whose session has ended must not show an old state as if it were the present one.
document.addEventListener("htmx:responseError", (event) => {
  const place = document.getElementById("problem");
  if (!place) return;
  place.textContent = `The service answered ${event.detail.xhr.status}; what is shown may be old. Reload the page.`;
  place.hidden = false;
});
document.addEventListener("htmx:sendError", () => {
  const place = document.getElementById("problem");
  if (!place) return;
  place.textContent = "The service does not answer; what is shown may be old.";
  place.hidden = false;
});
document.addEventListener("htmx:afterRequest", (event) => {
  const place = document.getElementById("problem");
  if (place && event.detail.successful) place.hidden = true;
});

// A tab that nobody sees does not ask again and again; once it is seen, it asks at once.
document.addEventListener("htmx:beforeRequest", (event) => {
  const trigger = event.detail.elt.getAttribute("hx-trigger") || "";
  if (document.hidden && trigger.startsWith("every")) event.preventDefault();
});

// A slider that sets the number of another field, as it is or as a power of ten.
document.addEventListener("input", (event) => {
  const field = event.target.dataset.sets && document.getElementById(event.target.dataset.sets);
  if (field) field.value = Number((event.target.dataset.power ? 10 ** event.target.value : Number(event.target.value)).toPrecision(2));
});

// Tables that were scrolled sideways stay so when their part of the page comes anew; htmx does the same for the focus.
const scrolled = new Map();
document.addEventListener("htmx:beforeSwap", (event) => {
  for (const table of event.detail.target.querySelectorAll(".scroll[id]")) scrolled.set(table.id, table.scrollLeft);
});
document.addEventListener("htmx:afterSwap", (event) => {
  for (const table of event.detail.target.querySelectorAll(".scroll[id]")) table.scrollLeft = scrolled.get(table.id) || 0;
});
