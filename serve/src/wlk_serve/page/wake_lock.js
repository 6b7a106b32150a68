// Keeps the screen on; browsers release the lock when the tab is hidden.

export class WakeLock {
	#isOn = false;
	#lock;

	constructor() {
		document.addEventListener("visibilitychange", () => this.set(this.#isOn));
	}

	set(isOn) {
		this.#isOn = isOn;
		if (isOn) this.#request();
		else this.#lock?.release();
	}

	async #request() {
		if (document.hidden) return;
		this.#lock = await navigator.wakeLock?.request("screen").catch(() => null); // refused at low battery
		if (!this.#isOn) this.set(false);
	}
}
