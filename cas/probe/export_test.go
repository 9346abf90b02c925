package probe

// Overtake is how long a slow upload waits for the one that overtakes it.
const Overtake = overtake
