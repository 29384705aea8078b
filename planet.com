0.0002231718176732615 : Mass of the planets (in mstar)
64.45032791952947 : Semi-major axes
0.338895835047481 : Eccentricities
73.42469569343523 : Inclinaison (deg)
1 : is Inclinaison damping?
1 : planets feel Disk ?
1 : planets feel others ?
0 : Accretion onto planets ?
1.66 : Accretion parameter
0.001 : Maximum mass of the planet
0.4 : Smoothing
1.0 : Region excluded from torque calculation
