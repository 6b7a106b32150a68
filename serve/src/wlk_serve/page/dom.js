// Shortcuts to the document.

/** Return the element with an id. */
export const $ = (id) => document.getElementById(id);

/** Return a new element with a class, appended to `parent` if it is given. */
export function element(name, className, parent, text = "") {
	const created = Object.assign(document.createElement(name), { className, textContent: text });
	parent?.append(created);
	return created;
}
