// Shortcuts with single keys, except in input fields, lists and dialogs.

/** Call the action of each pressed key while `isOn()` is true. */
export function onKeys(actions, isOn) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || !isOn()) return;
		if (event.target.closest("input, select, dialog[open]")) return;
		const action = actions[event.key.toLowerCase()];
		if (!action) return;
		event.preventDefault();
		action();
	});
}
